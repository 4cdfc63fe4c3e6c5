package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.Contents.Shape;
import stepinto.probe.threads.InvocationFailed;
import stepinto.probe.threads.Invoker;

/**
 * Recognises collections and opens them.
 *
 * <p>The usual ones of {@code java.util}, and those with locks, are read through their fields, as
 * JDK 8 to 21 lay them out: that is fast and runs nothing. The others of the JDK are read by their
 * public methods, under a deadline.
 */
final class Containers {
    private static final long MILLIS = 1_000;
    private static final String OBJECT_ARRAY = "()[Ljava/lang/Object;";

    /** Reads one object as one class of its ancestry lays it out. */
    private interface Reader {
        Contents read(ObjectReference object, ReferenceType type);
    }

    private final Heap heap;
    private final Invoker invoker;
    private final Map<String, Reader> readers = new HashMap<>();
    private final Map<ReferenceType, Optional<ReferenceType>> readable = new HashMap<>();

    Containers(Heap heap, Invoker invoker) {
        this.heap = heap;
        this.invoker = invoker;
        array("ArrayList", "elementData", "size");
        array("Vector", "elementData", "elementCount");
        array("PriorityQueue", "queue", "size");
        array("Arrays$ArrayList", "a", null);
        array("ImmutableCollections$ListN", "elements", null);
        array("concurrent.CopyOnWriteArrayList", "array", null);
        add("ImmutableCollections$List12", this::oneOrTwo);
        add("LinkedList", (object, type) -> {
            List<Value> read = heap.values(object, type, "first", "size");
            ObjectReference head = (ObjectReference) read.get(0);
            int size = Heap.number(read.get(1));
            return Contents.nodes(heap, Shape.LIST, head, null, size, null, "item", "next");
        });
        add("LinkedHashMap", (object, type) -> {
            ObjectReference head = (ObjectReference) heap.value(object, "head");
            int size = Heap.number(heap.value(object, "size"));
            return Contents.nodes(heap, Shape.MAP, head, null, size, "key", "value", "after");
        });
        table("HashMap", "size");
        table("Hashtable", "count");
        add("HashSet", (object, type) -> inner(object, type, "map").keys());
        for (String prefix : new String[] {"Unmodifiable", "Synchronized"}) {
            String start = "Collections$" + prefix;
            add(start + "Collection", (object, type) -> inner(object, type, "c"));
            add(start + "Map", (object, type) -> inner(object, type, "m"));
        }
    }

    private void add(String name, Reader reader) {
        readers.put("java.util." + name, reader);
    }

    private void array(String name, String items, String size) {
        add(name, (object, type) -> {
            ArrayReference array = (ArrayReference) heap.values(object, type, items).get(0);
            int count = size == null ? Heap.length(array)
                    : Heap.number(heap.values(object, type, size).get(0));
            return Contents.arrays(Shape.LIST, null, array, count);
        });
    }

    private void table(String name, String count) {
        add(name, (object, type) -> {
            List<Value> read = heap.values(object, type, "table", count);
            ArrayReference table = (ArrayReference) read.get(0);
            int size = Heap.number(read.get(1));
            return Contents.nodes(heap, Shape.MAP, null, table, size, "key", "value", "next");
        });
    }

    /** If there is only one item, the other field holds a marker or null. */
    private Contents oneOrTwo(ObjectReference object, ReferenceType type) {
        List<Value> read = heap.values(object, type, "e0", "e1");
        Value second = read.get(1);
        boolean one = second == null || second.type().name().equals("java.lang.Object");
        return new Contents(Shape.LIST, one ? 1 : 2) {
            @Override
            Iterator<Item> from(int start) {
                List<Item> items = new ArrayList<>();
                for (Value value : read.subList(Math.min(start, size), size)) {
                    items.add(new Item(null, value));
                }
                return items.iterator();
            }
        };
    }

    /** What another object holds, on which this one is a view. */
    private Contents inner(ObjectReference object, ReferenceType type, String field) {
        ObjectReference inner = (ObjectReference) heap.values(object, type, field).get(0);
        Contents contents = inner == null ? null : of(inner);
        if (contents == null) {
            throw new Heap.LayoutUnknown(type.name() + " wraps what can't be read");
        }
        return contents;
    }

    /** What an object holds; null if it is no collection that can be opened. */
    Contents of(ObjectReference object) {
        if (object instanceof ArrayReference) {
            ArrayReference array = (ArrayReference) object;
            return Contents.arrays(Shape.LIST, null, array, array.length());
        }
        ReferenceType type = object.referenceType();
        Optional<ReferenceType> known = readable.get(type);
        if (known == null) {
            known = Optional.ofNullable(container(type));
            readable.put(type, known);
        }
        if (!known.isPresent()) {
            return null;
        }
        Reader reader = readers.get(known.get().name());
        try {
            return reader == null ? invoked(object) : reader.read(object, known.get());
        } catch (Heap.LayoutUnknown other) {
            // Another version of the JDK: its public methods say the same, only slower.
            return invoked(object);
        }
    }

    /** The class in a type's ancestry whose layout is known, or a collection of the JDK. */
    private ReferenceType container(ReferenceType type) {
        if (!(type instanceof ClassType)) {
            return null;
        }
        for (ClassType base = (ClassType) type; base != null; base = base.superclass()) {
            if (readers.containsKey(base.name())) {
                return base;
            }
        }
        boolean platform = TypeNames.isPlatform(type.name());
        return platform && shape((ClassType) type) != null ? type : null;
    }

    /** Opened by methods of the object's. */
    private Contents invoked(ObjectReference object) {
        Shape shape = shape((ClassType) object.referenceType());
        try {
            ObjectReference values = object;
            ArrayReference keys = null;
            if (shape == Shape.MAP) {
                values = call(object, "values", "()Ljava/util/Collection;");
                ObjectReference keySet = call(object, "keySet", "()Ljava/util/Set;");
                keys = (ArrayReference) call(keySet, "toArray", OBJECT_ARRAY);
            }
            ArrayReference array = (ArrayReference) call(values, "toArray", OBJECT_ARRAY);
            return Contents.arrays(shape, keys, array, array.length());
        } catch (InvocationFailed | RuntimeException error) {
            return null;
        }
    }

    private ObjectReference call(ObjectReference object, String name, String signature)
            throws InvocationFailed {
        ClassType type = (ClassType) object.referenceType();
        Method method = type.concreteMethodByName(name, signature);
        List<Value> none = Collections.emptyList();
        return (ObjectReference) invoker.invoke(object, null, method, none, MILLIS);
    }

    private static Shape shape(ClassType type) {
        Shape found = null;
        for (InterfaceType each : type.allInterfaces()) {
            if (each.name().equals("java.util.Map")) {
                return Shape.MAP;
            }
            if (each.name().equals("java.util.Set")) {
                return Shape.SET;
            }
            if (each.name().equals("java.util.Collection")) {
                found = Shape.LIST;
            }
        }
        return found;
    }
}
