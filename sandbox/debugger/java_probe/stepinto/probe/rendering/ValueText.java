package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.Variables.Named;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.Containers.Contents;
import stepinto.probe.rendering.Containers.Item;
import stepinto.probe.rendering.Containers.Shape;
import stepinto.probe.threads.Invoker;
import stepinto.probe.wire.Limits;

/** Values as bounded text, whatever they are and whatever their {@code toString} does. */
public final class ValueText {
    private static final int KEY_CHARS = 80;
    private final Limits limits;
    public final Heap heap = new Heap();
    final Containers containers;
    final ProgramText programText;
    private final Map<ReferenceType, Kind> kinds = new HashMap<>();

    public ValueText(Limits limits, Invoker invoker) {
        this.limits = limits;
        this.containers = new Containers(heap, invoker);
        this.programText = new ProgramText(heap, invoker);
    }

    /** A new answer begins: what the program's {@code toString} said before may have changed. */
    public void begin() {
        programText.begin();
    }

    public Rendered render(Value value) {
        return render(value, 0);
    }

    /** The text from a character on; one page of it. */
    public Rendered render(Value value, int start) {
        return render(value, start, limits.valueChars);
    }

    private Rendered render(Value value, int start, int chars) {
        BoundedText text = new BoundedText(start, chars, limits.valueLines);
        new Rendering(this, limits, text).render(value);
        return text.rendered();
    }

    /** The message of an exception; null if it has none. Bounded. */
    public String message(ObjectReference exception) {
        BoundedText text = new BoundedText(0, limits.valueChars, limits.valueLines);
        try {
            return programText.putMessage(exception, text) ? text.rendered().text : null;
        } catch (BoundedText.Full full) {
            return text.rendered().text;
        }
    }

    /** {@code Type: message} of an exception, or {@code Type}. */
    public String describe(ObjectReference exception) {
        String type = TypeNames.simple(exception.referenceType().name());
        String message = message(exception);
        return message == null ? type : type + ": " + message;
    }

    Kind kind(ReferenceType type) {
        return kinds.computeIfAbsent(type, Kind::of);
    }

    /** What a value is made of: the items of a collection, else the fields. */
    public static final class Page {
        public final List<Named> values = new ArrayList<>();

        /** Of all pages together. */
        public int size;
    }

    /**
     * The items or fields from the given one on, as many as the limits allow.
     *
     * <p>Null, primitives, strings and boxes have none. Static fields are left out; those of
     * superclasses come first.
     */
    public Page page(Value value, int start) {
        Page page = new Page();
        if (!(value instanceof ObjectReference) || value instanceof StringReference) {
            return page;
        }
        ObjectReference object = (ObjectReference) value;
        Contents contents = containers.of(object);
        if (contents == null) {
            addFields(object, start, page);
            return page;
        }
        page.size = contents.size;
        String array = object instanceof ArrayReference ? object.type().name() : null;
        String declared = array == null ? null : array.substring(0, array.length() - 2);
        Iterator<Item> items = contents.from(start);
        while (items.hasNext() && page.values.size() < limits.maxValues) {
            Item item = items.next();
            int index = start + page.values.size();
            String name = "[" + index + "]";
            if (contents.shape == Shape.SET) {
                name = "{" + index + "}";
            } else if (contents.shape == Shape.MAP) {
                name = "[" + render(item.key, 0, KEY_CHARS).text + "]";
            }
            page.values.add(new Named(name, declared, contents.value(item)));
        }
        return page;
    }

    private void addFields(ObjectReference object, int start, Page page) {
        ReferenceType type = object.referenceType();
        if (kind(type) == Kind.BOX) {
            return;
        }
        List<Field> all = Heap.instanceFields(type);
        page.size = all.size();
        int first = Math.min(start, all.size());
        List<Field> shown = all.subList(first, Math.min(all.size(), first + limits.maxValues));
        Map<Field, Value> read = object.getValues(shown);
        for (Field field : shown) {
            page.values.add(new Named(field.name(), field.typeName(), read.get(field)));
        }
    }

    /** A value as text. */
    public static final class Rendered {
        /** There is no more. */
        public static final int END = -1;

        public final String text;

        /** Whether the text was cut, or items or levels were left out. */
        public final boolean truncated;

        /** Where the next page of the text begins, in characters; {@link #END} if it was all. */
        public final int nextStart;

        Rendered(String text, boolean truncated, int nextStart) {
            this.text = text;
            this.truncated = truncated;
            this.nextStart = nextStart;
        }
    }

    /** The ways in which an object can be shown. */
    enum Kind {
        BOX, BUILDER, ENUM, THROWABLE, OPTIONAL, ENTRY, LAMBDA, RECORD,
        /** By the fields, because it has no {@code toString} of its own. */
        FIELDS,
        /** By its {@code toString}. */
        TEXT;

        private static final String TO_STRING = "()Ljava/lang/String;";
        private static final byte ALOAD_0 = 0x2a;
        private static final byte INVOKEDYNAMIC = (byte) 0xba;

        /** How objects of a class are shown; arrays, strings and collections are handled before. */
        static Kind of(ReferenceType type) {
            String name = type.name();
            if (Primitives.unboxed(name) != null) {
                return BOX;
            }
            if (name.equals("java.lang.StringBuilder") || name.equals("java.lang.StringBuffer")) {
                return BUILDER;
            }
            if (name.equals("java.util.Optional")) {
                return OPTIONAL;
            }
            if (TypeNames.isLambda(name)) {
                return LAMBDA;
            }
            return type instanceof ClassType ? byAncestry((ClassType) type) : FIELDS;
        }

        private static Kind byAncestry(ClassType type) {
            boolean record = false;
            for (ClassType base = type; base != null; base = base.superclass()) {
                String name = base.name();
                if (name.equals("java.lang.Enum")) {
                    return ENUM;
                }
                if (name.equals("java.lang.Throwable")) {
                    return THROWABLE;
                }
                record |= name.equals("java.lang.Record");
            }
            if (TypeNames.isPlatform(type.name()) && type.fieldByName("key") != null) {
                for (InterfaceType each : type.allInterfaces()) {
                    if (each.name().equals("java.util.Map$Entry")) {
                        return ENTRY;
                    }
                }
            }
            Method method = type.concreteMethodByName("toString", TO_STRING);
            if (method == null || method.declaringType().name().equals("java.lang.Object")) {
                return FIELDS;
            }
            // A record's own toString is one call of the JDK's, given the record.
            byte[] code = record ? method.bytecodes() : new byte[0];
            boolean generated = code.length == 7 && code[0] == ALOAD_0 && code[1] == INVOKEDYNAMIC;
            return generated ? RECORD : TEXT;
        }
    }
}
