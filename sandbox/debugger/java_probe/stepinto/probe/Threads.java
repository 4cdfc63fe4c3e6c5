package stepinto.probe;

/** Threads of the probe's own. */
final class Threads {
    private Threads() {}

    static Thread start(String name, Runnable work) {
        Thread thread = new Thread(work, "stepinto-" + name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
