/** Loops that end, that do not, and that swallow everything thrown. */
public class Loops {
    static int bounded(int limit) {
        int total = 0;
        for (int number = 0; number < limit; number++) {
            total += number;
        }
        return total;
    }

    static int swallows() {
        int count = 0;
        while (count < 3) {
            try {
                count++;
                Thread.sleep(1);
            } catch (Throwable ignored) {
                count += 0;
            }
        }
        return count;
    }

    static void endless() {
        long turns = 0;
        while (true) {
            turns++;
        }
    }

    public static void main(String[] arguments) {
        bounded(10);
        swallows();
        bounded(1000);
        endless();
    }
}
