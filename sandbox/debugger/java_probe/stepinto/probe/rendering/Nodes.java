package stepinto.probe.rendering;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.Value;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/** Items that hang together by nodes: linked lists, hash tables, red-black trees. */
abstract class Nodes implements Iterator<Contents.Item> {
    private ObjectReference next;
    private int left;
    private boolean started;

    /** Items at most, whatever the links say: a structure caught half-changed may be a ring. */
    Nodes(int size) {
        this.left = size;
    }

    /** The first node; null if there is none. */
    abstract ObjectReference first();

    /** The node after the given one, its item read before; null at the end. */
    abstract ObjectReference after(ObjectReference node);

    abstract Contents.Item item(ObjectReference node);

    @Override
    public boolean hasNext() {
        if (!started) {
            started = true;
            next = first();
        }
        return left > 0 && next != null;
    }

    @Override
    public Contents.Item next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        ObjectReference node = next;
        Contents.Item item = item(node);
        left--;
        next = left > 0 ? after(node) : null;
        return item;
    }

    /** The names of a node's fields. */
    static final class Layout {
        final String key;
        final String value;
        final String link;

        Layout(String key, String value, String link) {
            this.key = key;
            this.value = value;
            this.link = link;
        }
    }

    /** A chain, from its head by one link. */
    static Nodes chain(Heap heap, ObjectReference head, Layout layout, int size) {
        return new Nodes(size) {
            @Override
            ObjectReference first() {
                return head;
            }

            @Override
            ObjectReference after(ObjectReference node) {
                return (ObjectReference) heap.value(node, layout.link);
            }

            @Override
            Contents.Item item(ObjectReference node) {
                return read(heap, node, layout);
            }
        };
    }

    /** The chains of a hash table. A node that only forwards to others holds no value. */
    static Nodes table(Heap heap, ArrayReference table, Layout layout, int size) {
        return new Nodes(table == null ? 0 : size) {
            private final int slots = Heap.length(table);
            private int slot;
            private List<Value> chunk = Collections.emptyList();
            private int inChunk;

            @Override
            ObjectReference first() {
                while (inChunk < chunk.size() || slot < slots) {
                    if (inChunk == chunk.size()) {
                        chunk = table.getValues(slot, Math.min(128, slots - slot));
                        slot += chunk.size();
                        inChunk = 0;
                    }
                    ObjectReference head = (ObjectReference) chunk.get(inChunk++);
                    if (head != null) {
                        return entry(head);
                    }
                }
                return null;
            }

            private ObjectReference entry(ObjectReference head) {
                String type = head.referenceType().name();
                if (type.endsWith("$TreeBin")) {
                    return (ObjectReference) heap.value(head, "first");
                }
                return type.endsWith("$ForwardingNode") ? first() : head;
            }

            @Override
            ObjectReference after(ObjectReference node) {
                ObjectReference linked = (ObjectReference) heap.value(node, layout.link);
                return linked == null ? first() : linked;
            }

            @Override
            Contents.Item item(ObjectReference node) {
                return read(heap, node, layout);
            }
        };
    }

    /** A binary tree in order. */
    static Nodes tree(Heap heap, ObjectReference root, int size) {
        Layout layout = new Layout("key", "value", "right");
        return new Nodes(size) {
            private final Deque<ObjectReference> above = new ArrayDeque<>();

            @Override
            ObjectReference first() {
                return leftmost(root);
            }

            private ObjectReference leftmost(ObjectReference from) {
                ObjectReference node = from;
                while (node != null && above.size() < 64) {
                    above.push(node);
                    node = (ObjectReference) heap.value(node, "left");
                }
                return above.poll();
            }

            @Override
            ObjectReference after(ObjectReference node) {
                return leftmost((ObjectReference) heap.value(node, layout.link));
            }

            @Override
            Contents.Item item(ObjectReference node) {
                return read(heap, node, layout);
            }
        };
    }

    private static Contents.Item read(Heap heap, ObjectReference node, Layout layout) {
        Value key = layout.key == null ? null : heap.value(node, layout.key);
        return new Contents.Item(key, heap.value(node, layout.value));
    }
}
