package stepinto.probe.launch;

import com.sun.jdi.Bootstrap;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.connect.spi.Connection;
import java.io.*;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import stepinto.probe.program.Target;
import stepinto.probe.threads.Threads;
import stepinto.probe.wire.Refusal;
import stepinto.probe.wire.Request;

/** The process of the program, and the connection to the virtual machine in it. */
public final class Debuggee {
    private static final String SETSID = "/usr/bin/setsid";
    private static final int ACCEPT_MILLIS = 20;
    private static final int HANDSHAKE_MILLIS = 10_000;
    private static final int LAST_CHARACTERS = 2000;
    public final Process process;
    public final Output output;
    /** Whether the program is known to have started processes of its own. */
    public boolean hadChildren;
    private final ServerSocket listener;
    private final Target target;

    /** Start it, suspended at its first instruction, about to connect. Raises IOException. */
    public Debuggee(Target target, String stdin, int outputChars) throws IOException {
        this.target = target;
        listener = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"));
        List<String> command = new ArrayList<>();
        if (new File(SETSID).canExecute()) {
            command.add(SETSID); // its own session: the program can't open our terminal
        }
        command.addAll(target.debugCommand(listener.getLocalPort()));
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

    /** The virtual machine, once it has connected. Raises Refusal if none does in time. */
    public VirtualMachine connect(Request request) throws IOException, Refusal {
        try (ServerSocket closing = listener) {
            Socket socket = accept(request);
            socket.setSoTimeout(HANDSHAKE_MILLIS);
            JdwpConnection connection = new JdwpConnection(socket);
            socket.setSoTimeout(0);
            return Bootstrap.virtualMachineManager().createVirtualMachine(connection, process);
        }
    }

    private Socket accept(Request request) throws IOException, Refusal {
        listener.setSoTimeout(ACCEPT_MILLIS);
        while (System.nanoTime() < request.deadline) {
            try {
                return listener.accept();
            } catch (SocketTimeoutException none) {
                if (!process.isAlive()) {
                    String code = "exit code " + process.exitValue();
                    throw failed("ended before it could be debugged (" + code + ")");
                }
            }
        }
        throw failed("started no Java virtual machine to debug within " + request.timeout + " s");
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

    /** The debugger's end of JDWP over a socket; JDI's own needs connectors, which load slowly. */
    private static final class JdwpConnection extends Connection {
        private static final byte[] HANDSHAKE =
                "JDWP-Handshake".getBytes(StandardCharsets.US_ASCII);
        private static final int LENGTH_BYTES = 4;
        private final Socket socket;
        private final DataInputStream in;
        private final OutputStream out;
        private final Object reading = new Object();
        private final Object writing = new Object();

        JdwpConnection(Socket socket) throws IOException {
            this.socket = socket;
            socket.setTcpNoDelay(true);
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16));
            out = socket.getOutputStream();
            out.write(HANDSHAKE);
            byte[] answer = new byte[HANDSHAKE.length];
            in.readFully(answer);
            if (!Arrays.equals(answer, HANDSHAKE)) {
                throw new IOException("what connected is no Java virtual machine under debug");
            }
        }

        @Override
        public byte[] readPacket() throws IOException {
            synchronized (reading) {
                try {
                    int length = in.readInt();
                    byte[] packet = new byte[length];
                    ByteBuffer.wrap(packet).putInt(length);
                    in.readFully(packet, LENGTH_BYTES, length - LENGTH_BYTES);
                    return packet;
                } catch (EOFException end) {
                    return new byte[0]; // as the interface has it for a closed connection
                }
            }
        }

        @Override
        public void writePacket(byte[] packet) throws IOException {
            synchronized (writing) {
                out.write(packet);
            }
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }

        @Override
        public boolean isOpen() {
            return !socket.isClosed();
        }
    }
}
