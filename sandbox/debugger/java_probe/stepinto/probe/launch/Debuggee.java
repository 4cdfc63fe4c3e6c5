package stepinto.probe.launch;

import com.sun.jdi.Bootstrap;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.connect.Connector;
import com.sun.jdi.connect.IllegalConnectorArgumentsException;
import com.sun.jdi.connect.ListeningConnector;
import com.sun.jdi.connect.TransportTimeoutException;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import stepinto.probe.program.Target;
import stepinto.probe.threads.Threads;
import stepinto.probe.wire.Refusal;
import stepinto.probe.wire.Request;

/** The process of the program, and the connection to the virtual machine in it. */
public final class Debuggee {
    private static final String SETSID = "/usr/bin/setsid";
    private static final String ACCEPT_MILLIS = "20";
    private static final int LAST_CHARACTERS = 2000;
    public final Process process;
    public final Output output;
    /** Whether the program is known to have started processes of its own. */
    public boolean hadChildren;
    private final ListeningConnector connector = connector();
    private final Map<String, Connector.Argument> listening = connector.defaultArguments();
    private final Target target;

    /** Start it, suspended at its first instruction, about to connect. Raises IOException. */
    public Debuggee(Target target, String stdin, int outputChars) throws IOException {
        this.target = target;
        listening.get("localAddress").setValue("127.0.0.1");
        listening.get("timeout").setValue(ACCEPT_MILLIS);
        String address;
        try {
            address = connector.startListening(listening);
        } catch (IllegalConnectorArgumentsException error) {
            throw new IOException(error);
        }
        String port = address.substring(address.lastIndexOf(':') + 1);
        List<String> command = new ArrayList<>();
        if (new File(SETSID).canExecute()) {
            command.add(SETSID); // its own session: the program can't open our terminal
        }
        command.addAll(target.debugCommand(port));
        // The JDK's own temporary names would load all of its cryptography for one random number.
        Path input = Paths.get("/tmp", "stepinto-" + System.nanoTime() + ".stdin");
        Files.write(input, stdin.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE_NEW);
        try {
            ProcessBuilder builder = new ProcessBuilder(command);
            builder.directory(new File(target.folder));
            target.environment.forEach(
                    (name, value) -> builder.environment().put(name, (String) value));
            process = builder.redirectErrorStream(true).redirectInput(input.toFile()).start();
        } finally {
            Files.delete(input);
        }
        output = new Output(process.getInputStream(), outputChars);
        output.follow(true);
        Threads.start("output", output);
    }

    /** Over a socket. */
    private static ListeningConnector connector() {
        for (ListeningConnector each : Bootstrap.virtualMachineManager().listeningConnectors()) {
            if (each.transport().name().equals("dt_socket")) {
                return each;
            }
        }
        throw new IllegalStateException("this JDK has no connector for sockets");
    }

    /** The virtual machine, once it has connected. Raises Refusal if none does in time. */
    public VirtualMachine connect(Request request) throws IOException, Refusal {
        try {
            while (System.nanoTime() < request.deadline) {
                try {
                    VirtualMachine machine = connector.accept(listening);
                    connector.stopListening(listening);
                    return machine;
                } catch (TransportTimeoutException none) {
                    if (!process.isAlive()) {
                        String code = "exit code " + process.exitValue();
                        throw failed("ended before it could be debugged (" + code + ")");
                    }
                }
            }
            throw failed(
                    "started no Java virtual machine to debug within " + request.timeout + " s");
        } catch (IllegalConnectorArgumentsException error) {
            throw new IOException(error);
        }
    }

    private Refusal failed(String what) {
        String text = output.take().trim();
        int cut = Math.max(text.length() - LAST_CHARACTERS, 0);
        String command = target.command.get(0);
        return new Refusal("launch_failed", command + " " + what + ":\n" + text.substring(cut));
    }

    /** How it ended, waiting for that a little; null if it still runs. */
    public Integer exitCode() {
        try {
            return process.waitFor(2, TimeUnit.SECONDS) ? process.exitValue() : null;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    /** While the process is there: later nobody can tell. */
    public void lookForChildren() {
        hadChildren |= Processes.hasStartedOthers(Processes.pid(process));
    }

    /** Whether a crashed virtual machine wrote so of itself; then its report is deleted. */
    public boolean ranOutOfMemory() {
        Path report = Paths.get("/tmp", "stepinto-crash-" + Processes.pid(process) + ".log");
        try {
            byte[] data = Files.readAllBytes(report);
            Files.delete(report);
            return new String(data, StandardCharsets.UTF_8).contains("insufficient memory");
        } catch (IOException none) {
            return false;
        }
    }
}
