package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.Named;
import stepinto.probe.program.TypeNames;
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
        Kind kind = kinds.get(type);
        if (kind == null) {
            kind = Kind.of(type);
            kinds.put(type, kind);
        }
        return kind;
    }

    /** What a value is made of: the items of a collection, else the fields. */
    public static final class Page {
        public final List<Named> values = new ArrayList<>();

        /** Of all pages together. */
        public int size;
    }

    /**
     * The items or fields from the given one on, at most {@code limit}.
     *
     * <p>Null, primitives, strings and boxes have none. Static fields are left out; those of
     * superclasses come first.
     */
    public Page page(Value value, int start, int limit) {
        Page page = new Page();
        if (!(value instanceof ObjectReference) || value instanceof StringReference) {
            return page;
        }
        ObjectReference object = (ObjectReference) value;
        Contents contents = containers.of(object);
        if (contents == null) {
            addFields(object, start, limit, page);
            return page;
        }
        page.size = contents.size;
        String array = object instanceof ArrayReference ? object.type().name() : null;
        String declared = array == null ? null : array.substring(0, array.length() - 2);
        Iterator<Contents.Item> items = contents.from(start);
        while (items.hasNext() && page.values.size() < limit) {
            Contents.Item item = items.next();
            int index = start + page.values.size();
            String name = "[" + index + "]";
            if (contents.shape == Contents.Shape.SET) {
                name = "{" + index + "}";
            } else if (contents.shape == Contents.Shape.MAP) {
                name = "[" + render(item.key, 0, KEY_CHARS).text + "]";
            }
            page.values.add(new Named(name, declared, item.value));
        }
        return page;
    }

    private void addFields(ObjectReference object, int start, int limit, Page page) {
        ReferenceType type = object.referenceType();
        if (kind(type) == Kind.BOX) {
            return;
        }
        List<Field> all = Heap.instanceFields(type);
        page.size = all.size();
        int first = Math.min(start, all.size());
        List<Field> shown = all.subList(first, Math.min(all.size(), first + limit));
        Map<Field, Value> read = object.getValues(shown);
        for (Field field : shown) {
            page.values.add(new Named(field.name(), field.typeName(), read.get(field)));
        }
    }
}
