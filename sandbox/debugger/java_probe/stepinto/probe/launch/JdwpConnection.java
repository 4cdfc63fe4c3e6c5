package stepinto.probe.launch;

import com.sun.jdi.connect.spi.Connection;
import java.io.*;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The debugger's end of JDWP over a socket; JDI's own needs its connectors, which load slowly. */
final class JdwpConnection extends Connection {
    private static final byte[] HANDSHAKE = "JDWP-Handshake".getBytes(StandardCharsets.US_ASCII);
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
