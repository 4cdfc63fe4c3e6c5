package stepinto.probe;

import java.io.IOException;

/** Starts the probe: it serves the host over its standard input and output. */
public final class Main {
    private Main() {}

    /** Takes no arguments. */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        Machines machines = new Machines();
        Session[] session = new Session[1];
        Wire wire = new Wire(() -> session[0].end());
        session[0] = new Session(wire, machines);
        Runtime.getRuntime().addShutdownHook(new Thread(session[0]::end));
        wire.greet();
        Threads.start("wire", wire);
        Threads.start("loader", machines);
        // Two threads, for the one that talks to the program may be kept waiting by it.
        Threads.start("rescue", new Watchdog(wire, session[0]::endLateInvocation));
        Threads.start("watchdog", new Watchdog(wire, session[0]::killLate));
        session[0].serve();
    }
}
