package stepinto.probe;

import java.util.ArrayList;
import java.util.List;

/** A small program to be debugged in {@link Rehearsal}. */
final class Example {
    private Example() {}

    private static int twice(int number) {
        return number * 2;
    }

    /** Takes no arguments. */
    public static void main(String[] arguments) {
        String name = "example";
        List<Integer> numbers = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            numbers.add(twice(number));
        }
        throw new IllegalStateException(name + numbers);
    }
}
