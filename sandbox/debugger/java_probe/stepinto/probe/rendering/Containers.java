package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import java.util.function.IntFunction;
import stepinto.probe.program.TypeNames;
import stepinto.probe.threads.Invoker;
import stepinto.probe.threads.Invoker.InvocationFailed;

/**
 * Recognises collections and opens them.
 *
 * <p>The usual ones of {@code java.util}, and those with locks, are read through their fields, as
 * JDK 8 to 21 lay them out: that is fast and runs nothing. The others of the JDK are read by their
 * public methods, under a deadline.
 */
final class Containers {
    private static final long MILLIS = 1_000;
    private static final int CHUNK = 128;
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
        add("LinkedList", (object, type) -> {
            List<Value> read = heap.values(object, type, "first", "size");
            return nodes(Shape.LIST, read.get(0), null, read.get(1), null, "item", "next");
        });
        add("LinkedHashMap", (object, type) -> {
            Value head = heap.value(object, "head");
            Value size = heap.value(object, "size");
            return nodes(Shape.MAP, head, null, size, "key", "value", "after");
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
            return arrays(Shape.LIST, null, array, count);
        });
    }

    private void table(String name, String count) {
        add(name, (object, type) -> {
            List<Value> read = heap.values(object, type, "table", count);
            return nodes(Shape.MAP, null, read.get(0), read.get(1), "key", "value", "next");
        });
    }

    /** The first items of arrays; the keys are null but for a map. */
    private static Contents arrays(
            Shape shape, ArrayReference keys, ArrayReference values, int size) {
        int whole = values == null ? 0 : Math.max(0, Math.min(size, values.length()));
        return new Contents(shape, whole, start -> new Items(keys, values, start, whole));
    }

    private Contents nodes(Shape shape, Value head, Value table, Value count, String... names) {
        ObjectReference first = (ObjectReference) head;
        ArrayReference heads = (ArrayReference) table;
        int size = Heap.number(count);
        return new Contents(
                shape, size, start -> new Nodes(first, heads, size, names).from(start));
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
            return arrays(Shape.LIST, null, array, array.length());
        }
        ReferenceType type = object.referenceType();
        Optional<ReferenceType> known =
                readable.computeIfAbsent(type, each -> Optional.ofNullable(container(each)));
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
            return arrays(shape, keys, array, array.length());
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

    enum Shape { LIST, SET, MAP }

    static final class Item {
        /** Null but in a map. */
        final Value key;
        final Value value;

        Item(Value key, Value value) {
            this.key = key;
            this.value = value;
        }
    }

    /** What a collection, a map or an array holds. */
    static final class Contents {
        final int size;
        private final IntFunction<Iterator<Item>> items;
        Shape shape;
        private boolean keys;

        Contents(Shape shape, int size, IntFunction<Iterator<Item>> items) {
            this.shape = shape;
            this.size = size;
            this.items = items;
        }

        /** The items from the given one on; read bit by bit, so that a few cost little. */
        Iterator<Item> from(int start) {
            return items.apply(start);
        }

        /** The same of a map as a set of its keys. */
        Contents keys() {
            shape = Shape.SET;
            keys = true;
            return this;
        }

        /** The value to show for an item. */
        Value value(Item item) {
            return keys ? item.key : item.value;
        }
    }

    private static final class Items implements Iterator<Item> {
        private final ArrayReference keys;
        private final ArrayReference values;
        private final int end;
        private int next;
        private int chunkStart;
        private List<Value> chunk = Collections.emptyList();
        private List<Value> keyChunk;

        Items(ArrayReference keys, ArrayReference values, int start, int end) {
            this.keys = keys;
            this.values = values;
            this.end = end;
            next = start;
        }

        @Override
        public boolean hasNext() {
            return next < end;
        }

        @Override
        public Item next() {
            if (next >= chunkStart + chunk.size()) {
                int count = Math.min(CHUNK, end - next);
                chunk = values.getValues(next, count);
                keyChunk = keys == null ? null : keys.getValues(next, count);
                chunkStart = next;
            }
            int at = next++ - chunkStart;
            return new Item(keyChunk == null ? null : keyChunk.get(at), chunk.get(at));
        }
    }

    /** The items of linked nodes: of the chain at a head, or of the chains of a table. */
    private final class Nodes implements Iterator<Item> {
        private final Iterator<Item> heads;
        private final String[] names;
        private int left;
        private ObjectReference next;

        /**
         * @param names of a node's fields: its key (null for none), its value, its link to the next
         * @param size items at most, whatever the links say: a structure caught half-changed may be
         *     a ring
         */
        Nodes(ObjectReference head, ArrayReference table, int size, String... names) {
            this.names = names;
            heads = arrays(Shape.LIST, null, table, Heap.length(table)).from(0);
            left = size;
            next = head == null ? head() : head;
        }

        /** The items from one on. */
        Nodes from(int start) {
            for (int at = 0; at < start && hasNext(); at++) {
                next();
            }
            return this;
        }

        /** The head of the next chain that is not empty; null if there is none. */
        private ObjectReference head() {
            Value head = null;
            while (head == null && heads.hasNext()) {
                head = heads.next().value;
            }
            return (ObjectReference) head;
        }

        @Override
        public boolean hasNext() {
            return left > 0 && next != null;
        }

        @Override
        public Item next() {
            ObjectReference node = next;
            Value key = names[0] == null ? null : heap.value(node, names[0]);
            Item item = new Item(key, heap.value(node, names[1]));
            left--;
            if (left > 0) {
                ObjectReference linked = (ObjectReference) heap.value(node, names[2]);
                next = linked == null ? head() : linked;
            }
            return item;
        }
    }
}
