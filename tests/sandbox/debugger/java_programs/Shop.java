import java.util.*;
import java.util.function.Function;

/** A program to evaluate in: fields, overloads, nested classes, generics. */
public class Shop {
    enum Color {
        RED,
        GREEN
    }

    static class Item {
        private int price;
        Item next;

        Item(int price) {
            this.price = price;
        }

        private int doubled() {
            return 2 * price;
        }
    }

    static final int LIMIT = 10;
    static String shared = "sh";

    private int count = 7;
    private int[] stock = {1, 2, 3};

    String kind(Object value) {
        return "object";
    }

    String kind(String value) {
        return "string";
    }

    String kind(int value) {
        return "int";
    }

    String kind(long value) {
        return "long";
    }

    String kind(Integer value) {
        return "Integer";
    }

    String many(String first, Object... rest) {
        return first + rest.length;
    }

    private int secret(int given) {
        return given + count;
    }

    int fails() {
        throw new IllegalArgumentException("bad thing");
    }

    void endless() {
        while (true) {
            Thread.onSpinWait();
        }
    }

    void run(int a, long b, double c, boolean d, char e, String f, Integer boxed) {
        List<Integer> list = new ArrayList<>(Arrays.asList(3, 1, 2));
        Map<String, Integer> map = new LinkedHashMap<>();
        map.put("one", 1);
        map.put("two", 2);
        Item item = new Item(5);
        Object text = "s";
        Object nothing = null;
        String[] words = {"a", "b"};
        Function<Integer, Integer> plus = x -> {
            int inner = x + count;
            return inner + a; // @lambda
        };
        System.out.println("paused"); // @here
        System.out.println(a + " " + f + " " + count + " " + boxed + " " + stock[0] + " " + list);
        int later = plus.apply(1);
        System.out.println(later);
        new Object() {
            int own = 3;

            void go() {
                System.out.println(own + a + count); // @anonymous
            }
        }.go();
        largest(list);
    }

    static <T extends Comparable<T>> T largest(List<T> items) {
        T best = items.get(0);
        return best; // @generic
    }

    public static void main(String[] args) {
        new Shop().run(1, 2L, 3.5, true, 'c', "text", 42);
    }
}
