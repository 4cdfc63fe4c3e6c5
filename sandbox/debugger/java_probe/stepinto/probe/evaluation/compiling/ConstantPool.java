package stepinto.probe.evaluation.compiling;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** The constants of a class file (JVM specification, 4.4), to be read and changed in place. */
final class ConstantPool {
    static final int METHOD = 10;
    private static final int START = 8;
    private static final int TEXT = 1;
    private static final int LONG = 5;
    private static final int DOUBLE = 6;
    /** The size of each kind of constant without its tag, by the tag; 0 for none such. */
    private static final int[] SIZES = {
        0, 2, 0, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 0, 0, 3, 2, 4, 4, 2, 2,
    };

    /** Where what follows the constants begins. */
    final int end;

    private final ByteBuffer content;
    private final int[] offsets;

    ConstantPool(ByteBuffer content) {
        this.content = content;
        int at = START + 2;
        offsets = new int[unsigned(START)];
        for (int index = 1; index < offsets.length; index++) {
            offsets[index] = at;
            int tag = content.get(at);
            boolean known = tag > 0 && tag < SIZES.length && SIZES[tag] > 0;
            if (!known) {
                throw new IllegalArgumentException("a constant of the unknown kind " + tag);
            }
            at += 1 + SIZES[tag] + (tag == TEXT ? unsigned(at + 1) : 0);
            // A long or a double takes two places.
            index += tag == LONG || tag == DOUBLE ? 1 : 0;
        }
        end = at;
    }

    private int unsigned(int at) {
        return content.getShort(at) & 0xffff;
    }

    int count() {
        return offsets.length;
    }

    boolean is(int index, int tag) {
        return offsets[index] > 0 && content.get(offsets[index]) == tag;
    }

    String text(int index) {
        byte[] found = new byte[unsigned(offsets[index] + 1)];
        for (int at = 0; at < found.length; at++) {
            found[at] = content.get(offsets[index] + 3 + at);
        }
        return new String(found, StandardCharsets.UTF_8);
    }

    /** The index that a constant holds first: a method's class, a class's name. */
    int first(int index) {
        return unsigned(offsets[index] + 1);
    }

    /** The index that it holds second: a method's name and type. */
    int second(int index) {
        return unsigned(offsets[index] + 3);
    }

    void setFirst(int index, int value) {
        content.putShort(offsets[index] + 1, (short) value);
    }
}
