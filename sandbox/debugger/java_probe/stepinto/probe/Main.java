package stepinto.probe;

import com.sun.jdi.Bootstrap;
import java.io.File;
import java.io.IOException;
import java.util.function.Consumer;
import stepinto.probe.threads.Threads;
import stepinto.probe.wire.Request;
import stepinto.probe.wire.Wire;

/** Starts the probe: it serves the host over its standard input and output. */
public final class Main {
    private static final int TICK_MILLIS = 20;

    private Main() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        // No program shall write to it while classes are still read from it.
        new File(System.getProperty("java.class.path").split(File.pathSeparator)[0]).delete();
        Session[] session = new Session[1];
        Wire wire = new Wire(() -> session[0].end());
        session[0] = new Session(wire);
        Runtime.getRuntime().addShutdownHook(new Thread(session[0]::end));
        wire.greet();
        Threads.start("wire", wire);
        Threads.start("loader", Bootstrap::virtualMachineManager);
        // Two threads, because the one that talks to the program may have to wait for it.
        Threads.start("rescue", () -> watch(wire, session[0]::endLateInvocation));
        Threads.start("watchdog", () -> watch(wire, session[0]::killLate));
        session[0].serve();
    }

    /** Looks again and again at the request that is not answered yet. */
    private static void watch(Wire wire, Consumer<Request> check) {
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
