package stepinto.probe.rendering;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.Value;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;

/** What a collection, a map or an array holds. */
abstract class Contents {
    /** The key is meant for maps only. */
    static final class Item {
        final Value key;
        final Value value;

        Item(Value key, Value value) {
            this.key = key;
            this.value = value;
        }
    }

    enum Shape { LIST, SET, MAP }

    private static final int CHUNK = 128;

    final Shape shape;
    final int size;

    Contents(Shape shape, int size) {
        this.shape = shape;
        this.size = size;
    }

    /** The items from the given one on; read bit by bit, so that a few cost little. */
    abstract Iterator<Item> from(int start);

    /** The keys of a map, as a set. */
    Contents keys() {
        Contents map = this;
        return new Contents(Shape.SET, size) {
            @Override
            Iterator<Item> from(int start) {
                Iterator<Item> items = map.from(start);
                return new Iterator<Item>() {
                    @Override
                    public boolean hasNext() {
                        return items.hasNext();
                    }

                    @Override
                    public Item next() {
                        return new Item(null, items.next().key);
                    }
                };
            }
        };
    }

    /** The first items of arrays; the keys are null but for a map. */
    static Contents arrays(Shape shape, ArrayReference keys, ArrayReference values, int size) {
        int whole = values == null ? 0 : Math.max(0, Math.min(size, values.length()));
        return new Contents(shape, whole) {
            @Override
            Iterator<Item> from(int start) {
                return new Iterator<Item>() {
                    private int next = start;
                    private int chunkStart;
                    private List<Value> chunk = Collections.emptyList();
                    private List<Value> keyChunk;

                    @Override
                    public boolean hasNext() {
                        return next < whole;
                    }

                    @Override
                    public Item next() {
                        if (next >= chunkStart + chunk.size()) {
                            int count = Math.min(CHUNK, whole - next);
                            chunk = values.getValues(next, count);
                            keyChunk = keys == null ? null : keys.getValues(next, count);
                            chunkStart = next;
                        }
                        int at = next++ - chunkStart;
                        return new Item(keyChunk == null ? null : keyChunk.get(at), chunk.get(at));
                    }
                };
            }
        };
    }

    /**
     * The items of linked nodes: of the chain that begins at a head, or of the chains of a table.
     *
     * @param names of a node's fields: its key (null for none), its value, its link to the next
     * @param size items at most, whatever the links say: a structure caught half-changed may be a
     *     ring
     */
    static Contents nodes(
            Heap heap,
            Shape shape,
            ObjectReference head,
            ArrayReference table,
            int size,
            String... names) {
        return new Contents(shape, size) {
            @Override
            Iterator<Item> from(int start) {
                Iterator<Item> items = new Nodes(heap, head, table, size, names);
                for (int at = 0; at < start && items.hasNext(); at++) {
                    items.next();
                }
                return items;
            }
        };
    }

    private static final class Nodes implements Iterator<Item> {
        private final Heap heap;
        private final Iterator<Item> heads;
        private final String[] names;
        private int left;
        private ObjectReference next;

        Nodes(Heap heap, ObjectReference head, ArrayReference table, int size, String... names) {
            this.heap = heap;
            this.names = names;
            heads = arrays(Shape.LIST, null, table, Heap.length(table)).from(0);
            left = size;
            next = head == null ? head() : head;
        }

        /** The head of the next chain that is not empty; null if there is none. */
        private ObjectReference head() {
            while (heads.hasNext()) {
                Value head = heads.next().value;
                if (head != null) {
                    return (ObjectReference) head;
                }
            }
            return null;
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
