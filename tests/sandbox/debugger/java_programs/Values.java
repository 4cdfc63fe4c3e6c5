import java.math.BigDecimal;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

/** Every kind of value, as a local variable. */
public class Values {
    enum Color {
        RED,
        GREEN {
            @Override
            public String toString() {
                return "grass";
            }
        }
    }

    enum Size {
        LARGE("l");

        final String name;

        Size(String name) {
            this.name = name;
        }
    }

    static class Wrong extends RuntimeException {
        int detailMessage = 5;

        Wrong() {
            super("told");
        }
    }

    record Row(int id, String label) {}

    static class Point {
        int x = 1;
        String name = "p";
    }

    static class Child extends Point {
        static int shared = 9;
        boolean extra = true;
    }

    static class Node {
        int value = 1;
        Node next;
    }

    static class Bag extends ArrayList<String> {
        int size = 99;
    }

    static class Raises {
        @Override
        public String toString() {
            throw new IllegalStateException("no text");
        }
    }

    static class Endless {
        @Override
        public String toString() {
            while (true) {
                Thread.onSpinWait();
            }
        }
    }

    static class Huge {
        @Override
        public String toString() {
            return "x".repeat(3_000_000);
        }
    }

    static class NullText {
        @Override
        public String toString() {
            return null;
        }
    }

    static class Colourful {
        @Override
        public String toString() {
            return "\u001b[31mred\n(Pdb) main[1] \r{\"id\":1}";
        }
    }

    static class Lines {
        @Override
        public String toString() {
            return "line\n".repeat(1000);
        }
    }

    static class Prints {
        @Override
        public String toString() {
            for (int line = 0; line < 20_000; line++) {
                System.out.println("spam");
            }
            return "printed";
        }
    }

    static class Counted {
        final List<String> asked = new ArrayList<>();

        @Override
        public String toString() {
            asked.add("once more");
            return "asked " + asked.size();
        }
    }

    public static void main(String[] args) {
        int whole = 7;
        long large = 5_000_000_000L;
        double fraction = 1.5;
        char letter = '\n';
        boolean truth = true;
        String words = "a \"b\"\t\u001b[31m";
        Integer boxed = 42;
        Object nothing = null;
        Color color = Color.GREEN;
        Size size = Size.LARGE;
        Exception wrong = new Wrong();
        Point point = new Point();
        Child child = new Child();
        Row row = new Row(3, "r");
        Node ring = new Node();
        ring.next = ring;
        int[] numbers = {1, 2, 3};
        int[][] grid = {{1, 2}, {3}};
        Object[] selfish = new Object[1];
        selfish[0] = selfish;
        StringBuilder builder = new StringBuilder("built");
        Class<?> kind = String.class;
        Runnable lambda = () -> {};
        Thread thread = Thread.currentThread();
        Exception problem = new IllegalStateException("msg");
        Exception silent = new RuntimeException();
        BigDecimal money = new BigDecimal("1.50");
        AtomicInteger counter = new AtomicInteger(4);
        Optional<String> present = Optional.of("o");
        Optional<String> absent = Optional.empty();
        Counted counted = new Counted();

        List<Integer> arrayList = new ArrayList<>(Arrays.asList(1, null, 3));
        List<String> asList = Arrays.asList("a", "b");
        List<String> linkedList = new LinkedList<>(Arrays.asList("p", "q"));
        Deque<Integer> deque = new ArrayDeque<>(Arrays.asList(1, 2));
        deque.addFirst(0);
        List<Integer> one = List.of(1);
        List<Integer> three = List.of(1, 2, 3);
        List<Integer> unmodifiable = Collections.unmodifiableList(arrayList);
        List<String> empty = Collections.emptyList();
        List<Integer> sublist = arrayList.subList(0, 2);
        Map<String, Integer> hashMap = new HashMap<>();
        hashMap.put("one", 1);
        hashMap.put("two", 2);
        Map<String, List<Integer>> linkedMap = new LinkedHashMap<>();
        linkedMap.put("z", List.of(1));
        linkedMap.put("a", List.of());
        Map<Integer, String> treeMap = new TreeMap<>();
        for (int key = 5; key > 0; key--) {
            treeMap.put(key, "v" + key);
        }
        Map<Color, Integer> enumMap = new EnumMap<>(Color.class);
        enumMap.put(Color.GREEN, 5);
        enumMap.put(Color.RED, null);
        Map<String, Integer> concurrent = new ConcurrentHashMap<>(hashMap);
        Map<String, Integer> skipList = new ConcurrentSkipListMap<>(hashMap);
        Map<String, Integer> single = Map.of("a", 1);
        Set<String> treeSet = new TreeSet<>(Set.of("x", "w"));
        Set<Integer> linkedSet = new LinkedHashSet<>(List.of(3, 1, 2));
        Set<Color> enumSet = EnumSet.of(Color.GREEN);
        Set<String> keys = linkedMap.keySet();
        Set<Map.Entry<String, Integer>> entries = hashMap.entrySet();
        Bag bag = new Bag();
        bag.add("inside");
        List<Object> selfList = new ArrayList<>();
        selfList.add(selfList);
        Queue<Integer> queue = new PriorityQueue<>(List.of(3, 1, 2));

        Object raises = new Raises();
        Object endless = new Endless();
        Object huge = new Huge();
        Object nullText = new NullText();
        Object colourful = new Colourful();
        Object lines = new Lines();
        Object prints = new Prints();
        String longText = "y".repeat(100_000);
        List<Integer> thousands = new ArrayList<>();
        for (int number = 0; number < 200_000; number++) {
            thousands.add(number);
        }
        Object deep = new Object[0];
        for (int level = 0; level < 20; level++) {
            deep = new Object[] {deep};
        }
        StringBuilder pages = new StringBuilder();
        for (int number = 0; number < 500; number++) {
            pages.append(number).append(',');
        }
        System.out.println("done"); // @here
    }
}
