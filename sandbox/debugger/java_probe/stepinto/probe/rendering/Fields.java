package stepinto.probe.rendering;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.Field;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.StringReference;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.Named;

/** What a value is made of, page by page: the items of a collection, else the fields. */
public final class Fields {
    private static final int KEY_CHARS = 80;

    private final ValueText values;

    public Fields(ValueText values) {
        this.values = values;
    }

    /** One page. */
    public static final class Page {
        public final List<Named> values;

        /** Of all pages together. */
        public final int size;

        /** Where the next page begins; {@link Rendered#END} if there is none. */
        final int nextStart;

        Page(List<Named> values, int start, int size) {
            this.values = values;
            this.size = size;
            int next = start + values.size();
            this.nextStart = next < size && !values.isEmpty() ? next : Rendered.END;
        }
    }

    /**
     * The items or fields from the given one on, at most {@code limit}.
     *
     * <p>Null, primitives, strings and boxes have none. Static fields are left out; those of
     * superclasses come first.
     */
    public Page of(Value value, int start, int limit) {
        if (!(value instanceof ObjectReference) || value instanceof StringReference) {
            return new Page(new ArrayList<Named>(), start, 0);
        }
        ObjectReference object = (ObjectReference) value;
        Contents contents = values.containers().of(object);
        if (contents == null) {
            return fields(object, start, limit);
        }
        List<Named> found = new ArrayList<>();
        Iterator<Contents.Item> items = contents.from(start);
        while (items.hasNext() && found.size() < limit) {
            found.add(named(items.next(), contents.shape, start + found.size(), object));
        }
        return new Page(found, start, contents.size);
    }

    private Named named(Contents.Item item, Contents.Shape shape, int index, ObjectReference of) {
        String name = shape == Contents.Shape.SET ? "{" + index + "}" : "[" + index + "]";
        if (shape == Contents.Shape.MAP) {
            name = "[" + values.render(item.key, 0, KEY_CHARS).text + "]";
        }
        String array = of instanceof ArrayReference ? of.type().name() : null;
        String declared = array == null ? null : array.substring(0, array.length() - 2);
        return new Named(name, declared, item.value);
    }

    private Page fields(ObjectReference object, int start, int limit) {
        ReferenceType type = object.referenceType();
        if (values.kind(type) == Kind.BOX) {
            return new Page(new ArrayList<Named>(), start, 0);
        }
        List<Field> all = Heap.instanceFields(type);
        int first = Math.min(start, all.size());
        List<Field> shown = all.subList(first, Math.min(all.size(), first + limit));
        Map<Field, Value> read = object.getValues(shown);
        List<Named> found = new ArrayList<>();
        for (Field field : shown) {
            found.add(new Named(field.name(), field.typeName(), read.get(field)));
        }
        return new Page(found, start, all.size());
    }
}
