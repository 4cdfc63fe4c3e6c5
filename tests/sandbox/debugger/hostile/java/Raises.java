import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/** Exceptions: caught, chained, many, deep, in initialisers, uncaught. */
public class Raises {
    static class Problem extends RuntimeException {
        Problem(Throwable cause) {
            super(cause);
        }

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }
    }

    static class Broken {
        static final int VALUE = Integer.parseInt("broken");
    }

    static int caught(int n) {
        try {
            return new int[] {1, 2}[n];
        } catch (ArrayIndexOutOfBoundsException error) {
            return -1;
        } finally {
            n++;
        }
    }

    static int deep(int n) {
        return n + deep(n + 1);
    }

    static int mapped(List<Integer> numbers) {
        Function<Integer, Integer> double2 = n -> {
            int doubled = n * 2;
            return doubled;
        };
        return numbers.stream().map(double2).mapToInt(Integer::intValue).sum();
    }

    public static void main(String[] arguments) {
        caught(1);
        caught(5);
        mapped(Arrays.asList(1, 2, 3));
        for (int i = 0; i < 5000; i++) {
            caught(i);
        }
        try {
            deep(0);
        } catch (StackOverflowError error) {
            caught(2);
        }
        try {
            System.out.println(Broken.VALUE);
        } catch (ExceptionInInitializerError error) {
            caught(0);
        }
        throw new Problem(new IllegalArgumentException("cause"));
    }
}
