package stepinto.probe.rendering;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ClassType;
import com.sun.jdi.LongValue;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import stepinto.probe.rendering.Contents.Item;
import stepinto.probe.rendering.Contents.Shape;

/** The fields in which the collections of {@code java.util} keep their items, JDK 8 to 21. */
final class Layouts {
    private static final Nodes.Layout HASH = new Nodes.Layout("key", "value", "next");
    private static final Nodes.Layout LINKED_HASH = new Nodes.Layout("key", "value", "after");
    private static final Nodes.Layout CONCURRENT = new Nodes.Layout("key", "val", "next");
    private static final Nodes.Layout LINKED = new Nodes.Layout(null, "item", "next");

    /** Reads one object as one class of its ancestry lays it out. */
    private interface Reader {
        Contents read(Layouts layouts, ObjectReference object, ReferenceType type);
    }

    private static final Map<String, Reader> READERS = new HashMap<>();

    static {
        array("ArrayList", "elementData", "size", Shape.LIST);
        array("Vector", "elementData", "elementCount", Shape.LIST);
        array("PriorityQueue", "queue", "size", Shape.LIST);
        array("Arrays$ArrayList", "a", null, Shape.LIST);
        array("ImmutableCollections$ListN", "elements", null, Shape.LIST);
        array("concurrent.CopyOnWriteArrayList", "array", null, Shape.LIST);
        add("ArrayDeque", Layouts::deque);
        add("ImmutableCollections$List12", (l, o, t) -> l.one(o, t, Shape.LIST));
        add("ImmutableCollections$Set12", (l, o, t) -> l.one(o, t, Shape.SET));
        add("ImmutableCollections$SetN", (l, o, t) -> l.sparse(o, t, Shape.SET));
        add("ImmutableCollections$MapN", (l, o, t) -> l.sparse(o, t, Shape.MAP));
        add("ImmutableCollections$Map1", (l, o, t) -> l.pair(o, t, "k0", "v0"));
        add("Collections$SingletonMap", (l, o, t) -> l.pair(o, t, "k", "v"));
        add("Collections$SingletonList", (l, o, t) -> l.single(o, t, Shape.LIST));
        add("Collections$SingletonSet", (l, o, t) -> l.single(o, t, Shape.SET));
        add("Collections$EmptyList", (l, o, t) -> Contents.empty(Shape.LIST));
        add("Collections$EmptySet", (l, o, t) -> Contents.empty(Shape.SET));
        add("Collections$EmptyMap", (l, o, t) -> Contents.empty(Shape.MAP));
        add("LinkedList", (l, o, t) -> l.chain(o, t, "first", LINKED, Shape.LIST));
        add("LinkedHashMap", (l, o, t) -> l.linkedMap(o, t));
        add("HashMap", (l, o, t) -> l.table(o, t, "size", HASH));
        add("Hashtable", (l, o, t) -> l.table(o, t, "count", HASH));
        add("concurrent.ConcurrentHashMap", Layouts::concurrent);
        add("TreeMap", Layouts::tree);
        add("HashSet", (l, o, t) -> l.inner(o, t, "map").as(Shape.SET, true));
        add("TreeSet", (l, o, t) -> l.inner(o, t, "m").as(Shape.SET, true));
        add("EnumMap", Layouts::enumMap);
        add("RegularEnumSet", Layouts::enumSet);
        view("HashMap$", "this$0");
        view("LinkedHashMap$Linked", "this$0");
        add("TreeMap$KeySet", (l, o, t) -> l.inner(o, t, "m").as(Shape.SET, true));
        add("TreeMap$Values", (l, o, t) -> l.inner(o, t, "this$0").as(Shape.LIST, false));
        wrappers("Unmodifiable");
        wrappers("Synchronized");
    }

    private final Heap heap;
    private final Containers containers;

    Layouts(Heap heap, Containers containers) {
        this.heap = heap;
        this.containers = containers;
    }

    static boolean knows(String className) {
        return READERS.containsKey(className);
    }

    /** The items of an object, by a class in its ancestry; null if that class is not known. */
    Contents read(ObjectReference object, ReferenceType type) {
        Reader reader = READERS.get(type.name());
        return reader == null ? null : reader.read(this, object, type);
    }

    private static void add(String name, Reader reader) {
        READERS.put("java.util." + name, reader);
    }

    private static void array(String name, String items, String size, Shape shape) {
        add(name, (l, o, t) -> {
            List<Value> read = size == null
                    ? l.heap.values(o, t, items)
                    : l.heap.values(o, t, items, size);
            ArrayReference array = (ArrayReference) read.get(0);
            int count = size == null ? Heap.length(array) : Heap.number(read.get(1));
            return Contents.array(shape, array, 0, count);
        });
    }

    private static void view(String prefix, String outer) {
        add(prefix + "KeySet", (l, o, t) -> l.inner(o, t, outer).as(Shape.SET, true));
        add(prefix + "Values", (l, o, t) -> l.inner(o, t, outer).as(Shape.LIST, false));
    }

    private static void wrappers(String prefix) {
        String start = "Collections$" + prefix;
        add(start + "Collection", (l, o, t) -> l.inner(o, t, "c"));
        add(start + "Map", (l, o, t) -> l.inner(o, t, "m"));
    }

    private Contents deque(ObjectReference object, ReferenceType type) {
        List<Value> read = heap.values(object, type, "elements", "head", "tail");
        ArrayReference elements = (ArrayReference) read.get(0);
        int head = Heap.number(read.get(1));
        int distance = Heap.number(read.get(2)) - head;
        int size = distance < 0 ? distance + Heap.length(elements) : distance;
        return Contents.array(Shape.LIST, elements, head, size);
    }

    /** One or two items; if there is one, the other field holds a marker or null. */
    private Contents one(ObjectReference object, ReferenceType type, Shape shape) {
        List<Value> read = heap.values(object, type, "e0", "e1");
        Value second = read.get(1);
        boolean missing = second == null || second.type().name().equals("java.lang.Object");
        return Contents.values(shape, missing ? read.subList(0, 1) : read);
    }

    private Contents single(ObjectReference object, ReferenceType type, Shape shape) {
        return Contents.values(shape, heap.values(object, type, "element"));
    }

    private Contents pair(ObjectReference object, ReferenceType type, String key, String value) {
        List<Value> read = heap.values(object, type, key, value);
        Item item = new Item(read.get(0), read.get(1));
        return Contents.known(Shape.MAP, Collections.singletonList(item));
    }

    /** An open hash table: items, or keys and values in turn, with gaps. */
    private Contents sparse(ObjectReference object, ReferenceType type, Shape shape) {
        boolean map = shape == Shape.MAP;
        List<Value> read = heap.values(object, type, map ? "table" : "elements", "size");
        ArrayReference table = (ArrayReference) read.get(0);
        List<Value> slots = Heap.slice(table, 0, Heap.length(table));
        List<Item> items = new ArrayList<>();
        for (int at = 0; at < slots.size(); at += map ? 2 : 1) {
            if (slots.get(at) != null) {
                Value key = map ? slots.get(at) : null;
                items.add(new Item(key, slots.get(map ? at + 1 : at)));
            }
        }
        return Contents.known(shape, items);
    }

    private Contents chain(
            ObjectReference object,
            ReferenceType type,
            String head,
            Nodes.Layout layout,
            Shape shape) {
        List<Value> read = heap.values(object, type, head, "size");
        ObjectReference first = (ObjectReference) read.get(0);
        int size = Heap.number(read.get(1));
        return nodes(shape, size, () -> Nodes.chain(heap, first, layout, size));
    }

    private Contents linkedMap(ObjectReference object, ReferenceType type) {
        ObjectReference head = (ObjectReference) heap.values(object, type, "head").get(0);
        ClassType hashMap = ((ClassType) type).superclass();
        int size = Heap.number(heap.values(object, hashMap, "size").get(0));
        return nodes(Shape.MAP, size, () -> Nodes.chain(heap, head, LINKED_HASH, size));
    }

    private Contents table(
            ObjectReference object, ReferenceType type, String count, Nodes.Layout layout) {
        List<Value> read = heap.values(object, type, "table", count);
        ArrayReference table = (ArrayReference) read.get(0);
        int size = Heap.number(read.get(1));
        return nodes(Shape.MAP, size, () -> Nodes.table(heap, table, layout, size));
    }

    private Contents concurrent(ObjectReference object, ReferenceType type) {
        List<Value> read = heap.values(object, type, "table", "baseCount", "counterCells");
        ArrayReference table = (ArrayReference) read.get(0);
        long size = ((LongValue) read.get(1)).value();
        ArrayReference cells = (ArrayReference) read.get(2);
        for (Value cell : Heap.slice(cells, 0, Heap.length(cells))) {
            if (cell != null) {
                size += ((LongValue) heap.value((ObjectReference) cell, "value")).value();
            }
        }
        int count = (int) Math.max(0, Math.min(Integer.MAX_VALUE, size));
        return nodes(Shape.MAP, count, () -> Nodes.table(heap, table, CONCURRENT, count));
    }

    private Contents tree(ObjectReference object, ReferenceType type) {
        List<Value> read = heap.values(object, type, "root", "size");
        ObjectReference root = (ObjectReference) read.get(0);
        int size = Heap.number(read.get(1));
        return nodes(Shape.MAP, size, () -> Nodes.tree(heap, root, size));
    }

    /** What another object holds, on which this one is a view. */
    private Contents inner(ObjectReference object, ReferenceType type, String field) {
        ObjectReference inner = (ObjectReference) heap.values(object, type, field).get(0);
        Contents contents = inner == null ? null : containers.of(inner);
        if (contents == null) {
            throw new Heap.LayoutUnknown(type.name() + " wraps what can't be read");
        }
        return contents;
    }

    private Contents enumMap(ObjectReference object, ReferenceType type) {
        List<Value> read = heap.values(object, type, "keyUniverse", "vals");
        ArrayReference keys = (ArrayReference) read.get(0);
        ArrayReference values = (ArrayReference) read.get(1);
        List<Item> items = new ArrayList<>();
        List<Value> held = Heap.slice(values, 0, Heap.length(values));
        for (int at = 0; at < held.size(); at++) {
            Value value = held.get(at);
            if (value != null) {
                boolean isNull = value.type().name().startsWith("java.util.EnumMap$");
                items.add(new Item(keys.getValue(at), isNull ? null : value));
            }
        }
        return Contents.known(Shape.MAP, items);
    }

    private Contents enumSet(ObjectReference object, ReferenceType type) {
        long elements = ((LongValue) heap.value(object, "elements")).value();
        ArrayReference universe = (ArrayReference) heap.value(object, "universe");
        List<Value> found = new ArrayList<>();
        for (int at = 0; at < Heap.length(universe); at++) {
            if ((elements & 1L << at) != 0) {
                found.add(universe.getValue(at));
            }
        }
        return Contents.values(Shape.SET, found);
    }

    private static Contents nodes(Shape shape, int size, Supplier<Iterator<Item>> items) {
        return new Contents(shape, size) {
            @Override
            Iterator<Item> from(int start) {
                Iterator<Item> found = items.get();
                for (int at = 0; at < start && found.hasNext(); at++) {
                    found.next();
                }
                return found;
            }
        };
    }
}
