package stepinto.probe.program;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;

/** What a class file says of its source: methods and line numbers (JVM specification, 4). */
public final class ClassFile {
    private static final int HIDING = Modifier.PRIVATE | Modifier.PROTECTED;
    private static final int BRIDGE = 0x40;
    /** As the virtual machine names it: {@code demo.Outer$Inner}. */
    public final String name;
    /** The class that it extends; empty if there is none. */
    final String parent;
    /** Null if it was not recorded. */
    final String source;
    public final List<Code> methods = new ArrayList<>();
    final ConstantPool constants;
    /** The methods that the makers of lambdas are given, by the number of their entry. */
    final List<Set<String>> bootstraps = new ArrayList<>();
    private final ByteBuffer in;
    private final boolean open;

    /** One method that holds code. */
    public static final class Code {
        public final String name;
        public final String descriptor;
        /** In the order of the code. */
        public final List<Integer> lines = new ArrayList<>();
        /** In the order in which the virtual machine tries them. */
        public final List<Handler> handlers = new ArrayList<>();
        /** The index at which a stretch of code begins, and its line. */
        final TreeMap<Integer, Integer> lineAt = new TreeMap<>();
        /** The types of its annotations: {@code Lorg/junit/jupiter/api/AfterEach;}. */
        public final List<String> annotations = new ArrayList<>();
        private int start;
        private int size;

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
        /** The class that it catches; null for everything, as for a finally block or a lock. */
        public final String type;

        Handler(int start, int end, int entry, String type) {
            this.start = start;
            this.end = end;
            this.entry = entry;
            this.type = type;
        }
    }

    private ClassFile(byte[] data, boolean open) {
        this.open = open;
        in = ByteBuffer.wrap(data);
        constants = new ConstantPool(in);
        access();
        name = constants.className(count());
        int extended = count();
        parent = extended == 0 ? "" : constants.className(extended);
        skip(2 * count());
        readMembers(false);
        readMembers(!open);
        String found = null;
        for (int left = count(); left > 0; left--) {
            String attribute = constants.text(count());
            int size = in.getInt();
            if (attribute.equals("SourceFile")) {
                found = constants.text(count());
            } else if (attribute.equals("InnerClasses")) {
                for (int classes = count(); classes > 0; classes--) {
                    skip(6);
                    access();
                }
            } else if (attribute.equals("BootstrapMethods")) {
                readBootstraps();
            } else {
                skip(size);
            }
        }
        source = found;
    }

    private void readBootstraps() {
        for (int left = count(); left > 0; left--) {
            Set<String> methods = new HashSet<>();
            skip(2);
            for (int arguments = count(); arguments > 0; arguments--) {
                int method = constants.methodOfHandle(count());
                if (method > 0) {
                    methods.add(constants.text(constants.first(constants.second(method))));
                }
            }
            bootstraps.add(methods);
        }
    }

    public String parent() {
        return parent;
    }

    /** Whether one of its texts, such as a name of another class, contains one. */
    public boolean mentions(String part) {
        return constants.hasText(part);
    }

    /** The instructions of one of its methods. */
    byte[] bytes(Code code) {
        return Arrays.copyOfRange(in.array(), code.start, code.start + code.size);
    }

    /** Null if the file can't be read or is no class file. */
    static ClassFile read(File file) {
        try {
            return new ClassFile(Files.readAllBytes(file.toPath()), false);
        } catch (IOException | RuntimeException | StackOverflowError error) {
            return null; // being written just now, or broken: the virtual machine will say so
        }
    }

    /** Makes everything in a class file public. */
    public static void open(byte[] data) {
        new ClassFile(data, true);
    }

    /** Reads access flags, which become public ones if the file is opened. */
    private int access() {
        int flags = in.getShort();
        if (open) {
            in.putShort(in.position() - 2, (short) (flags & ~HIDING | Modifier.PUBLIC));
        }
        return flags;
    }

    private int count() {
        return in.getShort() & 0xffff;
    }

    private void skip(int size) {
        in.position(in.position() + size);
    }

    private void readMembers(boolean keep) {
        for (int left = count(); left > 0; left--) {
            // A bridge only calls the method that it stands for, from the line of the class.
            boolean bridge = (access() & BRIDGE) != 0;
            Code code = new Code(constants.text(count()), constants.text(count()));
            for (int more = count(); more > 0; more--) {
                String attribute = constants.text(count());
                int size = in.getInt();
                if (keep && !bridge && attribute.equals("Code")) {
                    readCode(code);
                    methods.add(code);
                } else if (keep && attribute.equals("RuntimeVisibleAnnotations")) {
                    readAnnotations(code, in.position() + size);
                } else {
                    skip(size);
                }
            }
        }
    }

    private void readAnnotations(Code code, int end) {
        for (int left = count(); left > 0; left--) {
            readAnnotation(code.annotations);
        }
        in.position(end);
    }

    private void readAnnotation(List<String> types) {
        types.add(constants.text(count()));
        for (int pairs = count(); pairs > 0; pairs--) {
            skip(2);
            skipValue();
        }
    }

    /** Skips the value of an annotation's element (JVM specification, 4.7.16.1). */
    private void skipValue() {
        byte tag = in.get();
        if (tag == '@') {
            readAnnotation(new ArrayList<>());
        } else if (tag == '[') {
            for (int left = count(); left > 0; left--) {
                skipValue();
            }
        } else {
            skip(tag == 'e' ? 4 : 2);
        }
    }

    private void readCode(Code code) {
        skip(4);
        code.size = in.getInt();
        code.start = in.position();
        skip(code.size);
        for (int left = count(); left > 0; left--) {
            int start = count();
            int end = count();
            int entry = count();
            int type = count();
            String caught = type == 0 ? null : constants.className(type);
            code.handlers.add(new Handler(start, end, entry, caught));
        }
        for (int left = count(); left > 0; left--) {
            boolean lines = constants.text(count()).equals("LineNumberTable");
            int size = in.getInt();
            if (!lines) {
                skip(size);
                continue;
            }
            for (int pairs = count(); pairs > 0; pairs--) {
                int index = count();
                code.lines.add(count());
                code.lineAt.put(index, code.lines.get(code.lines.size() - 1));
            }
        }
    }

    /** The constants of a class file (JVM specification, 4.4), to be read and changed in place. */
    public static final class ConstantPool {
        /** Where the number of constants stands. */
        public static final int START = 8;
        public static final byte TEXT = 1;
        public static final byte CLASS = 7;
        private static final int LONG = 5;
        private static final int DOUBLE = 6;
        private static final int METHOD = 10;
        private static final int HANDLE = 15;
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

        boolean hasText(String part) {
            for (int index = 1; index < offsets.length; index++) {
                boolean isText = offsets[index] > 0 && content.get(offsets[index]) == TEXT;
                if (isText && text(index).contains(part)) {
                    return true;
                }
            }
            return false;
        }

        /** The method that a handle leads to; 0 for what is no handle. */
        int methodOfHandle(int index) {
            boolean handle = offsets[index] > 0 && content.get(offsets[index]) == HANDLE;
            return handle ? unsigned(offsets[index] + 2) : 0;
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
}
