package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.FieldWrites;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;
import stepinto.probe.program.Variables.Named;
import stepinto.probe.rendering.Containers.Contents;
import stepinto.probe.rendering.Containers.Item;
import stepinto.probe.rendering.Containers.Shape;
import stepinto.probe.rendering.Heap.JavaText;
import stepinto.probe.threads.Invoker;
import stepinto.probe.wire.Limits;

/** Values as bounded text, whatever they are and whatever their {@code toString} does. */
public final class ValueText {
    private static final int KEY_CHARS = 80;
    /** Of a string within an object, so that its other fields can be seen too. */
    private static final int FIELD_CHARS = 100;
    private final Limits limits;
    public final Heap heap = new Heap();
    private final Containers containers;
    private final ProgramText programText;
    private final Map<ReferenceType, Kind> kinds = new HashMap<>();

    public ValueText(Limits limits, Invoker invoker, FieldWrites writes) {
        this.limits = limits;
        this.containers = new Containers(heap, invoker);
        this.programText = new ProgramText(heap, invoker, writes);
    }

    /** A new answer begins: what the program's {@code toString} said before may have changed. */
    public void begin() {
        programText.begin();
    }

    /** The text from a character on; one page of it. */
    public Rendered render(Value value, int start) {
        return render(value, start, limits.valueChars);
    }

    private Rendered render(Value value, int start, int chars) {
        BoundedText text = new BoundedText(start, chars, limits.valueLines);
        new Rendering(text).render(value);
        return text.rendered();
    }

    /** The message of an exception; null if it has none. Bounded. */
    public String message(ObjectReference exception) {
        BoundedText text = new BoundedText(0, limits.valueChars, limits.valueLines);
        try {
            return programText.putMessage("", exception, text) ? text.rendered().text : null;
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

    private Kind kind(ReferenceType type) {
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
        Map<Field, String> names = Heap.shownNames(all);
        for (Field field : shown) {
            Value value = read.get(field);
            // An exception without a cause has itself as its cause.
            boolean none = field.name().equals("cause") && object.equals(value);
            page.values.add(new Named(names.get(field), field.typeName(), none ? null : value));
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

    /** The rendering of one value, what it holds included. */
    private final class Rendering {
        private final BoundedText text;
        private final Deque<ObjectReference> open = new ArrayDeque<>();
        /** How many of the open objects are shown by their fields. */
        private int byFields;

        Rendering(BoundedText text) {
            this.text = text;
        }

        /** Appends a value; if the text gets full, says how much is left. */
        void render(Value value) {
            try {
                put(value);
            } catch (BoundedText.Full cut) {
                text.leftOut();
            } catch (VMDisconnectedException gone) {
                throw gone;
            } catch (RuntimeException problem) {
                // An object that was collected meanwhile, or one that this JDK lays out otherwise.
                text.leftOut();
                try {
                    text.putForeign("<can't be read: " + problem + ">");
                } catch (BoundedText.Full cut) {
                    text.leftOut();
                }
            }
        }

        private void put(Value value) {
            if (value == null) {
                text.put("null");
            } else if (value instanceof CharValue) {
                text.put("'");
                text.putQuoted(((CharValue) value).value(), '\'');
                text.put("'");
            } else if (value instanceof VoidValue) {
                text.put("void");
            } else if (value instanceof PrimitiveValue) {
                text.put(value.toString());
            } else if (value instanceof StringReference) {
                quoted(heap.text((StringReference) value));
            } else {
                object((ObjectReference) value);
            }
        }

        private void quoted(JavaText found) {
            text.put("\"");
            if (byFields == 0 || found.length <= FIELD_CHARS) {
                text.put(found, open.isEmpty(), '"');
                text.put("\"");
                return;
            }
            for (char unit : found.part(0, FIELD_CHARS).toCharArray()) {
                text.putQuoted(unit, '"');
            }
            text.leftOut();
            text.put("\"" + BoundedText.more(found.length - FIELD_CHARS));
        }

        private void object(ObjectReference object) {
            if (open.contains(object)) {
                text.put("<" + name(object) + " itself>");
                return;
            }
            if (open.size() > limits.valueDepth) {
                text.leftOut();
                text.put("...");
                return;
            }
            boolean says = saysItself(object.referenceType());
            Contents contents = says ? null : containers.of(object);
            if (contents != null) {
                boolean map = contents.shape == Shape.MAP;
                text.put(map ? "{" : "[");
                inside(object, contents.size == 0, () -> items(contents));
                text.put(map ? "}" : "]");
            } else if (object instanceof ClassObjectReference) {
                text.put(TypeNames.simple(((ClassObjectReference) object).reflectedType().name()));
                text.put(".class");
            } else if (object instanceof ThreadReference) {
                text.putForeign("Thread \"" + ((ThreadReference) object).name() + "\"");
            } else {
                byKind(object, kind(object.referenceType()));
            }
        }

        /** Whether an object of the program's own has a {@code toString} of its own. */
        private boolean saysItself(ReferenceType type) {
            if (TypeNames.isPlatform(type.name()) || kind(type) != Kind.TEXT) {
                return false;
            }
            Method method =
                    ((ClassType) type).concreteMethodByName("toString", "()Ljava/lang/String;");
            return !TypeNames.isPlatform(method.declaringType().name());
        }

        private void byKind(ObjectReference object, Kind kind) {
            switch (kind) {
                case BOX:
                    put(heap.value(object, "value"));
                    break;
                case BUILDER:
                    quoted(heap.textOfBuilder(object));
                    break;
                case ENUM:
                    StringReference name =
                            (StringReference) heap.value(object, "java.lang.Enum", "name");
                    text.put(name.value());
                    break;
                case LAMBDA:
                    text.put("<lambda>");
                    break;
                case ENTRY:
                    Value key = heap.value(object, "key");
                    nested(object, () -> pair(key, heap.value(object, "value")));
                    break;
                case OPTIONAL:
                    Value held = heap.value(object, "value");
                    text.put(held == null ? "Optional.empty" : "Optional[");
                    if (held != null) {
                        nested(object, () -> put(held));
                        text.put("]");
                    }
                    break;
                case THROWABLE:
                    text.put(name(object));
                    programText.putMessage(": ", object, text);
                    break;
                default:
                    composed(object, kind);
            }
        }

        private void composed(ObjectReference object, Kind kind) {
            if (kind == Kind.FIELDS && TypeNames.isPlatform(object.referenceType().name())) {
                // The insides of the JDK's own objects tell little; `fields` shows them.
                boolean empty = Heap.instanceFields(object.referenceType()).isEmpty();
                text.put(name(object) + (empty ? "{}" : "{...}"));
                return;
            }
            if (kind != Kind.TEXT) {
                fields(object, kind == Kind.RECORD);
                return;
            }
            ProgramText program = programText;
            String obstacle = program.obstacleToString(object.referenceType());
            if (obstacle != null || !program.put(object, text, open.isEmpty())) {
                fields(object, false);
                text.putForeign(obstacle == null ? "" : " <its toString() " + obstacle + ">");
            }
        }

        /** Appends what is in an object, unless that lies too deep. */
        private void inside(ObjectReference object, boolean empty, Runnable work) {
            if (!empty && open.size() >= limits.valueDepth) {
                text.leftOut();
                text.put("...");
            } else {
                nested(object, work);
            }
        }

        private void items(Contents contents) {
            Iterator<Item> items = contents.from(0);
            int done = 0;
            for (; items.hasNext(); done++) {
                if (open.size() == 1) {
                    text.tail(contents.size - done);
                }
                if (done == limits.valueItems) {
                    text.leftOut();
                    text.put(", " + BoundedText.more(contents.size - done));
                    return;
                }
                text.put(done > 0 ? ", " : "");
                Item item = items.next();
                if (contents.shape == Shape.MAP) {
                    pair(item.key, item.value);
                } else {
                    put(contents.value(item));
                }
            }
        }

        private void pair(Value key, Value value) {
            put(key);
            text.put("=");
            put(value);
        }

        private void fields(ObjectReference object, boolean record) {
            List<Field> fields = Heap.instanceFields(object.referenceType());
            text.put(name(object) + (record ? "[" : "{"));
            inside(object, fields.isEmpty(), () -> {
                Map<Field, Value> read = object.getValues(fields);
                Map<Field, String> names = Heap.shownNames(fields);
                byFields++;
                String before = "";
                for (Field field : fields) {
                    text.put(before + names.get(field) + "=");
                    put(read.get(field));
                    before = ", ";
                }
                byFields--;
            });
            text.put(record ? "]" : "}");
        }

        private void nested(ObjectReference object, Runnable work) {
            open.push(object);
            work.run();
            open.pop();
        }

        private String name(ObjectReference object) {
            return TypeNames.simple(object.referenceType().name());
        }
    }
}
