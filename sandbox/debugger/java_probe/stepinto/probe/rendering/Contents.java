package stepinto.probe.rendering;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;

/** What a collection, a map or an array holds. */
abstract class Contents {
    /** One item; the key is meant for maps only. */
    static final class Item {
        final Value key;
        final Value value;

        Item(Value key, Value value) {
            this.key = key;
            this.value = value;
        }
    }

    /** What kind of container it is. */
    enum Shape {
        LIST,
        SET,
        MAP
    }

    final Shape shape;
    final int size;

    Contents(Shape shape, int size) {
        this.shape = shape;
        this.size = size;
    }

    /** The items from the given one on; read bit by bit, so that a few cost little. */
    abstract Iterator<Item> from(int start);

    /** The same items under another shape, for a set that is kept as a map's keys. */
    Contents as(Shape other, boolean keys) {
        Contents whole = this;
        return new Contents(other, size) {
            @Override
            Iterator<Item> from(int start) {
                Iterator<Item> items = whole.from(start);
                return new Iterator<Item>() {
                    @Override
                    public boolean hasNext() {
                        return items.hasNext();
                    }

                    @Override
                    public Item next() {
                        Item item = items.next();
                        return keys ? new Item(null, item.key) : item;
                    }
                };
            }
        };
    }

    /** Items that are known already. */
    static Contents known(Shape shape, List<Item> items) {
        return new Contents(shape, items.size()) {
            @Override
            Iterator<Item> from(int start) {
                return items.subList(Math.min(start, items.size()), items.size()).iterator();
            }
        };
    }

    /** Values that are known already. */
    static Contents values(Shape shape, List<Value> values) {
        List<Item> items = new ArrayList<>();
        for (Value value : values) {
            items.add(new Item(null, value));
        }
        return known(shape, items);
    }

    static Contents empty(Shape shape) {
        return known(shape, Collections.<Item>emptyList());
    }

    /** A part of an array, going round at its end. */
    static Contents array(Shape shape, ArrayReference array, int first, int size) {
        if (array == null) {
            return empty(shape);
        }
        int length = array.length();
        int whole = Math.max(0, Math.min(size, length));
        return new Contents(shape, whole) {
            @Override
            Iterator<Item> from(int start) {
                return new ArrayItems(array, length, first, start, whole);
            }
        };
    }

    private static final class ArrayItems implements Iterator<Item> {
        private static final int CHUNK = 128;

        private final ArrayReference array;
        private final int length;
        private final int first;
        private final int size;
        private int next;
        private List<Value> chunk = Collections.emptyList();
        private int inChunk;

        ArrayItems(ArrayReference array, int length, int first, int start, int size) {
            this.array = array;
            this.length = length;
            this.first = first;
            this.next = start;
            this.size = size;
        }

        @Override
        public boolean hasNext() {
            return next < size;
        }

        @Override
        public Item next() {
            if (inChunk == chunk.size()) {
                int at = (first + next) % length;
                int count = Math.min(Math.min(CHUNK, size - next), length - at);
                chunk = array.getValues(at, count);
                inChunk = 0;
            }
            next++;
            return new Item(null, chunk.get(inChunk++));
        }
    }
}
