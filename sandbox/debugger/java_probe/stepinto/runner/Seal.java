package stepinto.runner;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * Numbers and signs the lines of a report (HMAC with SHA-256), so that who started the program
 * can tell them from lines that the program's own code wrote, took away or changed.
 *
 * <p>The digest is made before any class of the program is loaded: a security provider that the
 * program registers never sees the key.
 */
final class Seal {
    private static final int BLOCK = 64;

    private final MessageDigest digest;
    private final byte[] inner = new byte[BLOCK];
    private final byte[] outer = new byte[BLOCK];

    Seal(String hexKey) throws NoSuchAlgorithmException {
        digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < BLOCK; i++) {
            boolean given = 2 * i < hexKey.length();
            int part = given ? Integer.parseInt(hexKey.substring(2 * i, 2 * i + 2), 16) : 0;
            inner[i] = (byte) (part ^ 0x36);
            outer[i] = (byte) (part ^ 0x5c);
        }
    }

    /** The line of a text, as the report's line of that number. */
    synchronized String line(int number, String text) {
        try {
            digest.update(inner);
            byte[] half = digest.digest((number + " " + text).getBytes("US-ASCII"));
            digest.update(outer);
            StringBuilder line = new StringBuilder();
            for (byte part : digest.digest(half)) {
                line.append(Character.forDigit(part >> 4 & 15, 16));
                line.append(Character.forDigit(part & 15, 16));
            }
            return line.append(' ').append(text).append('\n').toString();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The lines of standard input, which nobody can read again. */
    static String[] readInput() throws IOException {
        StringBuilder text = new StringBuilder();
        // Not System.in, whose buffer keeps what was read.
        FileInputStream input = new FileInputStream(FileDescriptor.in);
        for (int next = input.read(); next >= 0; next = input.read()) {
            text.append((char) next);
        }
        try {
            // Where it is a file, this empties it for each process that has it open.
            new FileOutputStream("/proc/self/fd/0").close();
        } catch (IOException noFile) {
            // A socket, or a pipe: what was read of it is gone.
        }
        return text.toString().split("\n");
    }
}
