package stepinto.probe.program;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** The constants of a class file (JVM specification, 4.4), to be read and changed in place. */
public final class ConstantPool {
    /** Where the number of constants stands. */
    public static final int START = 8;
    public static final byte TEXT = 1;
    public static final byte CLASS = 7;
    private static final int LONG = 5;
    private static final int DOUBLE = 6;
    private static final int METHOD = 10;
    /** The size of each kind of constant without its tag, by the tag; 0 for none such. */
    private static final int[] SIZES = {
        0, 2, 0, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 0, 0, 3, 2, 4, 4, 2, 2,
    };

    private final ByteBuffer content;
    private final int[] offsets;

    /** Leaves the content at what follows the constants. */
    public ConstantPool(ByteBuffer content) {
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
        content.position(at);
    }

    private int unsigned(int at) {
        return content.getShort(at) & 0xffff;
    }

    public int count() {
        return offsets.length;
    }

    public boolean isMethod(int index) {
        return offsets[index] > 0 && content.get(offsets[index]) == METHOD;
    }

    public String text(int index) {
        return new String(
                content.array(),
                offsets[index] + 3,
                unsigned(offsets[index] + 1),
                StandardCharsets.UTF_8);
    }

    String className(int index) {
        return text(first(index)).replace('/', '.');
    }

    /** The index that a constant holds first: a method's class, a class's name. */
    public int first(int index) {
        return unsigned(offsets[index] + 1);
    }

    /** The index that it holds second: a method's name and type. */
    public int second(int index) {
        return unsigned(offsets[index] + 3);
    }

    public void setFirst(int index, int value) {
        content.putShort(offsets[index] + 1, (short) value);
    }
}
