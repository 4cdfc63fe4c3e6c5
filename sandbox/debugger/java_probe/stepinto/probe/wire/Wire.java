package stepinto.probe.wire;

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.LinkedBlockingQueue;

/** The host's requests and their answers, over the pseudo-terminal. */
public final class Wire implements Runnable {
    private final OutputStream out = new FileOutputStream(FileDescriptor.out);
    private final LinkedBlockingQueue<Request> requests = new LinkedBlockingQueue<>();
    private final Runnable atEnd;
    private volatile String nonce;
    private Request pending;

    /** {@code atEnd} runs once the host has hung up. */
    public Wire(Runnable atEnd) {
        this.atEnd = atEnd;
    }

    /** Say that the probe runs; what the host sent before is not lost. */
    public void greet() throws IOException {
        send("STEPINTO ready\n");
    }

    @Override
    public void run() {
        try {
            BufferedReader lines =
                    new BufferedReader(
                            new InputStreamReader(System.in, StandardCharsets.US_ASCII), 1 << 16);
            String line;
            while ((line = lines.readLine()) != null) {
                take(Fields.parse(line));
            }
        } catch (IOException error) {
            nonce = null; // EIO: the other side of the pseudo-terminal is gone
        } finally {
            atEnd.run();
        }
    }

    private void take(Fields message) throws IOException {
        if (nonce == null) {
            nonce = (String) message.get("nonce");
            String version = System.getProperty("java.version");
            write(message.get("id"), new Fields().with("version", version));
        } else if (message.get("action").equals("interrupt")) {
            Request running = pending();
            if (running != null) {
                running.interrupt();
            }
        } else {
            requests.add(new Request(message));
        }
    }

    /** The next request, which is then the one to answer. */
    public Request next() throws InterruptedException {
        Request request = requests.take();
        synchronized (this) {
            pending = request;
            notifyAll();
        }
        return request;
    }

    /** The request that is not answered yet; null if there is none. */
    public synchronized Request pending() {
        return pending;
    }

    public synchronized void awaitPending() throws InterruptedException {
        while (pending == null) {
            wait();
        }
    }

    /** Answer a request, unless it was answered before. */
    public synchronized void answer(Request request, Fields fields) {
        if (pending != request) {
            return;
        }
        pending = null;
        try {
            write(request.id, fields);
        } catch (IOException error) {
            atEnd.run();
        }
    }

    private synchronized void write(Object id, Fields fields) throws IOException {
        send(nonce + ' ' + fields.with("id", id) + '\n');
    }

    private void send(String line) throws IOException {
        out.write(line.getBytes(StandardCharsets.US_ASCII));
    }
}
