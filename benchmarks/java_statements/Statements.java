import java.util.*;
import java.util.function.*;
import java.util.stream.*;

/** Statements of all kinds, each with a line of its own, in methods that `main` calls in turn. */
public class Statements {
    static int tick;
    static int[] cells = {3, 1, 2};
    int field = next(1);
    static final Map<String, Integer> MEMO = new HashMap<>();

    static int next(int number) {
        tick++;
        return number;
    }

    static int sum(int... numbers) {
        int total = 0;
        for (int number : numbers) {
            total += number;
        }
        return total;
    }

    static class Resource implements AutoCloseable {
        final int number;

        Resource(int number) {
            this.number = next(number);
        }

        public void close() {
            tick++;
        }
    }

    enum Color { RED, GREEN, BLUE }

    record Point(int x, int y) {
        Point {
            if (x < 0) {
                throw new IllegalArgumentException("x");
            }
        }

        int area() {
            return x * y;
        }
    }

    static int calls() {
        int a = sum(
            next(1),
            next(2),
            next(3));
        sum(next(1),
            next(2));
        int b = Math
            .max(a,
                next(4));
        String text = new StringBuilder()
            .append(a)
            .append(next(5))
            .append(b).append(
                next(6)).append(next(7))
            .toString();
        int[] made = {
            next(1),
            next(2),
        };
        int chosen = a > b
            ? next(1)
            : next(2);
        long product = (long) next(3)
            * next(4)
            / next(2);
        made[next(0)]
            = next(7);
        return text.length()
            + chosen
            + (int) product;
    }

    static int conditions(int a, int b) {
        int count = 0;
        if (next(a) > 1
            && next(b) > 1
            || next(a + b) > 4) {
            count++;
        }
        if (sum(a,
                b) > 2 && sum(
                a) > 1) {
            count++;
        } else if (next(a) == 0) {
            count--;
        } else {
            count = count * 2;
        }
        boolean both = next(a) > 0 &&
            next(b) > 0;
        if (both) count++; else count--;
        assert sum(a,
            b) >= 0 : "never";
        return both ? count : -count;
    }

    static int loops() {
        int total = 0;
        for (int i = 0; i < 3; i++) {
            total += i;
        }
        for (int i = 0,
                end = next(2);
                i < end;
                i++) {
            total += next(i);
        }
        for (int cell : cells) {
            if (cell == 1) continue;
            total += cell;
        }
        for (String word : Arrays.asList(
                "a",
                "bc")) {
            total += word.length();
        }
        for (Iterator<Integer> each = Arrays.asList(1, 2).iterator(); each.hasNext(); ) total += each.next();
        int left = 3;
        while (left > 0) {
            left--;
        }
        while (next(left) < 2) left++;
        do {
            left--;
        } while (left > 0);
        outer:
        for (int row = 0; row < 2; row++) {
            for (int column = 0; column < 3; column++) {
                if (column == 2) continue outer;
                if (row == 1) break outer;
                total += column;
            }
        }
        for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) total++;
        return total;
    }

    static int tries(int number) {
        int result = 0;
        try {
            result = 10 / number;
        } catch (ArithmeticException error) {
            result = -1;
        } finally {
            result += next(1);
        }
        try {
            if (number == 2) {
                return result;
            }
            result += Integer.parseInt(
                number == 1 ? "1" : "x");
        } catch (NumberFormatException
                | IndexOutOfBoundsException error) {
            result--;
        } finally {
            tick += 10;
            result++;
        }
        try (Resource first = new Resource(1);
                Resource second = new Resource(2)) {
            result += 1 / number;
            result += first.number + second.number;
        } catch (ArithmeticException error) {
            result -= 5;
        }
        try (Resource only = new Resource(3)) {
            result += only.number;
        }
        synchronized (MEMO) {
            result++;
        }
        return result;
    }

    static int leaves(int number) {
        for (int i = 0; i < 4; i++) {
            try {
                if (i == 1) continue;
                if (i == number)
                    break;
                next(i);
            } finally {
                tick += 10;
            }
        }
        while (true) {
            tick += 5;
            try (Resource only = new Resource(4)) {
                if (next(number) > 2) break;
                number++;
            } finally {
                tick += 100;
            }
        }
        try {
            try (Resource first = new Resource(5);
                    Resource second = new Resource(6)) {
                synchronized (MEMO) {
                    return sum(number,
                        next(first.number),
                        second.number);
                }
            } finally {
                tick += 1000;
            }
        } finally {
            tick += 10000;
        }
    }

    static int leavesEarly(int number) {
        try {
            if (number == 0) return next(7);
            synchronized (MEMO) {
                if (number == 1)
                    return number;
            }
            try {
                number = 10 / (number - 2);
            } catch (ArithmeticException error) {
                return next(8);
            } finally {
                tick++;
            }
            return number;
        } finally {
            tick += 2;
        }
    }

    static void leavesVoid(int number) {
        try {
            if (number > 0) return;
            next(number);
            return;
        } finally {
            tick += 3;
        }
    }

    static int leavesSwitch(int number) {
        int value = next(1) + switch (number) {
            case 0:
                try {
                    yield next(2);
                } finally {
                    tick += 4;
                }
            default:
                yield number;
        };
        try {
            return number == 0
                ? next(value)
                : value;
        } finally {
            number = -1;
        }
    }

    static int switches(String word, Color color) {
        int result = 0;
        switch (word) {
            case "Aa":
                result = 1;
                break;
            case "BB":
                result = 2;
            default:
                result += 3;
        }
        switch (color) {
            case RED:
                result++;
                break;
            case GREEN:
                result--;
                break;
            default:
                break;
        }
        int value = switch (color) {
            case RED -> next(1);
            case GREEN -> {
                int twice = next(2) * 2;
                yield twice;
            }
            default -> sum(
                next(3),
                next(4));
        };
        result += sum(next(1), switch (word) {
            case "Aa" -> 5;
            default -> {
                int inner = next(6);
                yield inner;
            }
        });
        return result + value;
    }

    static int lambdas() {
        List<Integer> numbers = Arrays.asList(1, 2, 3);
        int count = numbers.stream().map(n -> next(n) * 2).filter(n -> n > 2).mapToInt(n -> n).sum();
        numbers.forEach(n -> tick += n);
        int total = numbers.stream()
            .filter(n -> n > 1)
            .map(n -> {
                int twice = n * 2;
                return twice;
            })
            .mapToInt(Integer::intValue)
            .sum();
        Supplier<Supplier<Integer>> nested = () -> () -> next(7);
        total += nested.get().get();
        Comparator<Integer> order = new Comparator<Integer>() {
            public int compare(Integer a, Integer b) {
                return b - a;
            }
        };
        List<Integer> sorted = new ArrayList<>(numbers);
        sorted.sort(order);
        sorted.sort((a, b) -> {
            int difference = a - b;
            return difference;
        });
        Runnable task = () -> { tick++; tick++; };
        task.run();
        Runnable old = new Runnable() { public void run() { tick += 3; } };
        old.run();
        MEMO.computeIfAbsent("k", key -> next(8));
        numbers.forEach(n -> {
            numbers.forEach(m -> next(n * m));
        });
        return count + total + Optional.of(3).map(n -> n + 1).orElse(0);
    }

    static int others() throws Exception {
        Point point = new Point(2, 3);
        int area = point.area();
        try {
            new Point(-1, 0);
        } catch (IllegalArgumentException error) {
            area++;
        }
        Object object = point;
        if (object instanceof Point other && other.x() > 1) {
            area += other.y();
        }
        int a = 1; int b = 2; int c = a + b;
        String text = "a" + a +
            "b" + next(b) +
            "c" + c;
        String block = """
            some text
            """;
        Statements made = new Statements();
        made.field += cells[1] + made.field++;
        cells[next(0)]++;
        { int scoped = c; area += scoped; }
        if (area > 0)
            area--;
        throw new Exception(
            text + block + area);
    }

    public static void main(String[] arguments) throws Exception {
        calls();
        conditions(2, 1);
        conditions(0, 0);
        conditions(3, 3);
        loops();
        tries(1);
        tries(2);
        tries(0);
        leaves(2);
        leaves(5);
        for (int number = 0; number < 4; number++) {
            leavesEarly(number);
            leavesVoid(number);
            leavesSwitch(number);
        }
        switches("Aa", Color.RED);
        switches("BB", Color.GREEN);
        switches("C", Color.BLUE);
        lambdas();
        try {
            others();
        } catch (Exception error) {
            tick++;
        }
    }
}
