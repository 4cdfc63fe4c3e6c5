package stepinto.probe.evaluation.compiling;

import java.nio.ByteBuffer;

/**
 * A class file whose private members are public, for a compiler that has to let code use them.
 *
 * <p>Only the compiler sees it; the program keeps its own.
 */
final class OpenedClass {
    private static final int PUBLIC = 0x0001;
    private static final int HIDING = 0x0002 | 0x0004;

    private final ByteBuffer content;
    private final ConstantPool constants;

    private OpenedClass(byte[] bytes) {
        content = ByteBuffer.wrap(bytes.clone());
        constants = new ConstantPool(content);
    }

    /** The class file with every member public. */
    static byte[] of(byte[] bytes) {
        OpenedClass opened = new OpenedClass(bytes);
        opened.open();
        return opened.content.array();
    }

    private void open() {
        content.position(constants.end);
        flags();
        skip(4);
        skip(2 * count());
        members();
        members();
        for (int left = count(); left > 0; left--) {
            boolean nested = constants.text(count()).equals("InnerClasses");
            int length = content.getInt();
            if (nested) {
                nested();
            } else {
                skip(length);
            }
        }
    }

    private int count() {
        return content.getShort() & 0xffff;
    }

    private void skip(int length) {
        content.position(content.position() + length);
    }

    private void flags() {
        int at = content.position();
        content.putShort((short) (content.getShort(at) & ~HIDING | PUBLIC));
    }

    private void members() {
        for (int left = count(); left > 0; left--) {
            flags();
            skip(4);
            for (int attributes = count(); attributes > 0; attributes--) {
                skip(2);
                skip(content.getInt());
            }
        }
    }

    private void nested() {
        for (int left = count(); left > 0; left--) {
            skip(6);
            flags();
        }
    }
}
