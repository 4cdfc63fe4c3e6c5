package stepinto.probe;

/** Keeps the deadlines: ends what the debugger runs, and in the end the program itself. */
final class Watchdog implements Runnable {
    private static final int TICK_MILLIS = 20;
    private final Wire wire;
    private final Session session;

    Watchdog(Wire wire, Session session) {
        this.wire = wire;
        this.session = session;
    }

    @Override
    public void run() {
        try {
            while (true) {
                wire.awaitPending();
                Thread.sleep(TICK_MILLIS);
                check(wire.pending());
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void check(Request pending) {
        if (pending == null) {
            return;
        }
        if (System.nanoTime() > pending.killAt) {
            session.kill(pending);
        } else {
            session.endLateInvocation();
        }
    }
}
