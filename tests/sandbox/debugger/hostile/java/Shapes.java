import java.util.Iterator;
import java.util.Optional;
import java.util.TreeMap;

/** Inner, anonymous and generic classes, overloads, lambdas, initialisers. */
public class Shapes<T extends Comparable<T>> implements Iterable<T> {
    static int made;

    static {
        made = 1;
    }

    enum Side { LEFT, RIGHT { @Override int sign() { return 1; } }; int sign() { return -1; } }

    final T[] items;
    private Node head;

    class Node {
        final T value;
        Node next;

        Node(T value) {
            this.value = value;
            this.next = head;
            head = this;
        }
    }

    Shapes(T[] items) {
        this.items = items;
        made++;
    }

    int add(int a, int b) {
        return a + b;
    }

    long add(long a, Integer b) {
        return a + b;
    }

    @Override
    public Iterator<T> iterator() {
        return new Iterator<T>() {
            int next = 0;

            @Override
            public boolean hasNext() {
                return next < items.length;
            }

            @Override
            public T next() {
                return items[next++];
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        Shapes<String> shapes = new Shapes<>(new String[] {"a", "b", "c"});
        TreeMap<String, Integer> lengths = new TreeMap<>();
        for (String item : shapes) {
            shapes.new Node(item);
            lengths.merge(item, item.length(), Integer::sum);
        }
        long sum = shapes.add(1, 2) + shapes.add(3L, 4);
        Optional<String> found = lengths.keySet().stream().filter(key -> key.length() > sum).findAny();
        char letter = 'x';
        byte[] bytes = {1, 2, 3};
        int side = 0;
        for (Side each : Side.values()) {
            side += each.sign();
        }
        int line = System.in.read();
        System.out.println(found + " " + letter + bytes.length + side + line);
    }
}
