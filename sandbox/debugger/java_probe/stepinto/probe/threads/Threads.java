package stepinto.probe.threads;

/** Threads of the probe's own. */
public final class Threads {
    private Threads() {}

    public static void start(String name, Runnable work) {
        Thread thread = new Thread(work, "stepinto-" + name);
        thread.setDaemon(true);
        thread.start();
    }
}
