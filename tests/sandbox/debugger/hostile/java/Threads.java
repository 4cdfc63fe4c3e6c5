import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Threads that work at once, fail, and lock up. */
public class Threads {
    static final List<Object> RESULTS = Collections.synchronizedList(new ArrayList<>());

    static void work(int number) {
        for (int turn = 0; turn < 3; turn++) {
            RESULTS.add(number * turn);
        }
    }

    static void waits(Object one, Object other, CountDownLatch ready) {
        synchronized (one) {
            ready.countDown();
            try {
                ready.await();
            } catch (InterruptedException error) {
                return;
            }
            synchronized (other) {
                RESULTS.add("never");
            }
        }
    }

    static void join(List<Thread> threads) throws InterruptedException {
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        List<Thread> workers = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            int number = n;
            workers.add(new Thread(() -> work(number), "worker-" + n));
        }
        join(workers);
        join(Collections.singletonList(new Thread(() -> { throw new IllegalStateException(); })));
        Object first = new Object();
        Object second = new Object();
        CountDownLatch ready = new CountDownLatch(2);
        List<Thread> pair = new ArrayList<>();
        pair.add(new Thread(() -> waits(first, second, ready)));
        pair.add(new Thread(() -> waits(second, first, ready)));
        join(pair);
    }
}
