package stepinto.probe;

import java.util.function.Consumer;

/** Looks again and again at the request that is not answered yet, from a thread of its own. */
final class Watchdog implements Runnable {
    private static final int TICK_MILLIS = 20;
    private final Wire wire;
    private final Consumer<Request> check;

    Watchdog(Wire wire, Consumer<Request> check) {
        this.wire = wire;
        this.check = check;
    }

    @Override
    public void run() {
        try {
            while (true) {
                wire.awaitPending();
                Thread.sleep(TICK_MILLIS);
                Request pending = wire.pending();
                if (pending != null) {
                    check.accept(pending);
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
