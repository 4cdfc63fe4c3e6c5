package stepinto.probe.program;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;

/** What a class file says of its source: methods and line numbers (JVM specification, 4). */
public final class ClassFile {
    private static final int HEADER = 8;
    /** Constant pool tags whose size differs from four bytes. */
    private static final int UTF8 = 1;
    private static final int LONG = 5;
    private static final int DOUBLE = 6;
    private static final int CLASS = 7;
    private static final int STRING = 8;
    private static final int METHOD_HANDLE = 15;
    private static final int METHOD_TYPE = 16;
    private static final int MODULE = 19;
    private static final int PACKAGE = 20;

    /** As the virtual machine names it: {@code demo.Outer$Inner}. */
    public final String name;
    /** Null if it was not recorded. */
    final String source;
    public final List<Code> methods = new ArrayList<>();
    private final Object[] constants;
    private final DataInputStream in;

    /** One method that holds code. */
    public static final class Code {
        public final String name;
        public final String descriptor;
        /** In the order of the code. */
        public final List<Integer> lines = new ArrayList<>();
        /** In the order in which the virtual machine tries them. */
        public final List<Handler> handlers = new ArrayList<>();

        Code(String name, String descriptor) {
            this.name = name;
            this.descriptor = descriptor;
        }
    }

    /** One entry of a method's exception table. */
    public static final class Handler {
        public final int start;
        public final int end;
        public final int entry;
        /** The class that it catches; null for a finally block or a lock, which pass on. */
        public final String type;

        Handler(int start, int end, int entry, String type) {
            this.start = start;
            this.end = end;
            this.entry = entry;
            this.type = type;
        }
    }

    private ClassFile(byte[] data) throws IOException {
        in = new DataInputStream(new ByteArrayInputStream(data));
        in.skipBytes(HEADER);
        constants = new Object[in.readUnsignedShort()];
        readConstants();
        in.readUnsignedShort();
        name = className(in.readUnsignedShort());
        in.readUnsignedShort();
        in.skipBytes(2 * in.readUnsignedShort());
        readMembers(false);
        readMembers(true);
        String found = null;
        for (int left = in.readUnsignedShort(); left > 0; left--) {
            String attribute = text(in.readUnsignedShort());
            int size = in.readInt();
            if (attribute.equals("SourceFile")) {
                found = text(in.readUnsignedShort());
            } else {
                in.skipBytes(size);
            }
        }
        source = found;
    }

    /** Null if the file can't be read or is no class file. */
    static ClassFile read(File file) {
        try {
            return new ClassFile(Files.readAllBytes(file.toPath()));
        } catch (IOException | RuntimeException error) {
            return null; // being written just now, or broken: the virtual machine will say so
        }
    }

    private String text(int index) {
        return (String) constants[index];
    }

    private String className(int index) {
        return text((Integer) constants[index]).replace('/', '.');
    }

    private void readConstants() throws IOException {
        for (int index = 1; index < constants.length; index++) {
            int tag = in.readUnsignedByte();
            if (tag == UTF8) {
                constants[index] = in.readUTF();
            } else if (tag == CLASS || tag == STRING || tag == METHOD_TYPE) {
                constants[index] = in.readUnsignedShort();
            } else if (tag == MODULE || tag == PACKAGE) {
                in.readUnsignedShort();
            } else if (tag == METHOD_HANDLE) {
                in.skipBytes(3);
            } else {
                in.readInt();
                if (tag == LONG || tag == DOUBLE) {
                    in.readInt();
                    index++;
                }
            }
        }
    }

    private void readMembers(boolean keep) throws IOException {
        for (int left = in.readUnsignedShort(); left > 0; left--) {
            in.readUnsignedShort();
            Code code = new Code(text(in.readUnsignedShort()), text(in.readUnsignedShort()));
            for (int more = in.readUnsignedShort(); more > 0; more--) {
                String attribute = text(in.readUnsignedShort());
                int size = in.readInt();
                if (keep && attribute.equals("Code")) {
                    readCode(code);
                    methods.add(code);
                } else {
                    in.skipBytes(size);
                }
            }
        }
    }

    private void readCode(Code code) throws IOException {
        in.readInt();
        in.skipBytes(in.readInt());
        for (int left = in.readUnsignedShort(); left > 0; left--) {
            int start = in.readUnsignedShort();
            int end = in.readUnsignedShort();
            int entry = in.readUnsignedShort();
            int type = in.readUnsignedShort();
            code.handlers.add(new Handler(start, end, entry, type == 0 ? null : className(type)));
        }
        for (int left = in.readUnsignedShort(); left > 0; left--) {
            boolean lines = text(in.readUnsignedShort()).equals("LineNumberTable");
            int size = in.readInt();
            if (!lines) {
                in.skipBytes(size);
                continue;
            }
            for (int pairs = in.readUnsignedShort(); pairs > 0; pairs--) {
                in.readUnsignedShort();
                code.lines.add(in.readUnsignedShort());
            }
        }
    }
}
