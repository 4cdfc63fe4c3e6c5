package stepinto.probe.program;

import com.sun.jdi.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The instructions of one method (JVM specification, 6.5). */
public final class ByteCode {
    private static final int IRETURN = 172;
    private static final int ARETURN = 176;
    private static final int IFEQ = 153;
    private static final int GOTO = 167;
    private static final int GOTO_W = 200;
    private static final int TABLESWITCH = 170;
    private static final int LOOKUPSWITCH = 171;
    private static final int IFNULL = 198;
    private static final int IFNONNULL = 199;
    private static final int WIDE = 196;
    private static final int IINC = 132;
    private static final int RETURN = 177;
    private static final int ATHROW = 191;
    private static final int ILOAD = 21;
    private static final int ALOAD = 25;
    private static final int ALOAD_0 = 42;
    private static final int ALOAD_3 = 45;
    private static final int ASTORE = 58;
    private static final int ASTORE_0 = 75;
    /** The sizes of the instructions, by runs of equal ones: how many, and their bytes. */
    private static final int[] SIZES = {
        16, 1, 1, 2, 1, 3, 1, 2, 2, 3, 5, 2, 28, 1, 5, 2, 73, 1, 1, 3, 20, 1, 16, 3, 1, 2, 2, 0,
        6, 1, 7, 3, 2, 5, 1, 3, 1, 2, 1, 3, 2, 1, 2, 3, 2, 1, 1, 0, 1, 4, 2, 3, 2, 5
    };
    private static final byte[] SIZE = byOpcode(SIZES);
    /** Where it returns a value. */
    public final List<Integer> returns = new ArrayList<>();
    /** Where it jumps back, and to which instruction. */
    public final Map<Integer, Integer> jumpsBack = new TreeMap<>();
    /** Where it jumps forward, other than in a switch, and to which instruction. */
    public final Map<Integer, Integer> jumpsOn = new TreeMap<>();
    private final byte[] code;

    public ByteCode(Method method) {
        this(method.isNative() || method.isAbstract() ? new byte[0] : method.bytecodes());
    }

    ByteCode(byte[] code) {
        this.code = code;
        int at = 0;
        while (at < code.length) {
            int opcode = code[at] & 0xff;
            if (opcode >= IRETURN && opcode <= ARETURN) {
                returns.add(at);
            } else if (isNearJump(opcode)) {
                (distance(at) > 0 ? jumpsOn : jumpsBack).put(at, at + distance(at));
            }
            int size = size(at);
            if (size <= 0) {
                break;
            }
            at += size;
        }
    }

    /** Whether the instruction behind one may be the next. */
    boolean goesOn(int at) {
        int opcode = code[at] & 0xff;
        boolean jumps = opcode >= GOTO && opcode <= RETURN || opcode == GOTO_W;
        return !jumps && opcode != ATHROW;
    }

    /** Where an instruction may jump to. */
    List<Integer> targets(int at) {
        List<Integer> found = new ArrayList<>();
        int opcode = code[at] & 0xff;
        if (isNearJump(opcode)) {
            found.add(at + distance(at));
        } else if (opcode == GOTO_W) {
            found.add(at + number(at + 1));
        } else if (opcode == TABLESWITCH || opcode == LOOKUPSWITCH) {
            int aligned = (at + 4) & ~3;
            found.add(at + number(aligned));
            boolean table = opcode == TABLESWITCH;
            // Of a pair only the second number is a target.
            for (int next = aligned + 12; next < at + size(at); next += table ? 4 : 8) {
                found.add(at + number(next));
            }
        }
        return found;
    }

    private static boolean isNearJump(int opcode) {
        return opcode >= IFEQ && opcode <= GOTO || opcode == IFNULL || opcode == IFNONNULL;
    }

    /** A number for each instruction, from runs of equal ones: how many, and the number. */
    static byte[] byOpcode(int[] runs) {
        byte[] numbers = new byte[256];
        int opcode = 0;
        for (int run = 0; run < runs.length; run += 2) {
            for (int left = runs[run]; left > 0; left--) {
                numbers[opcode++] = (byte) runs[run + 1];
            }
        }
        return numbers;
    }

    /** The constant that an instruction names, or the variable of one with a wide number. */
    int operand(int at) {
        return (code[at + 1] & 0xff) << 8 | code[at + 2] & 0xff;
    }

    private int distance(int at) {
        return (short) operand(at);
    }

    public boolean isConditional(int at) {
        return (code[at] & 0xff) != GOTO;
    }

    /**
     * Where the handler that begins at an instruction raises again what it was given, as compilers
     * have it for finally blocks, locks and resources, and as a program may have it; -1 where it may
     * end in another way.
     */
    public int raisesAgain(int entry) {
        int kept = variable(entry, ASTORE, ASTORE_0);
        int loaded = -1;
        int farthest = entry;
        for (int at = entry; at < code.length && size(at) > 0; at += size(at)) {
            int opcode = code[at] & 0xff;
            boolean leaves = opcode == GOTO && at + distance(at) < entry;
            if (leaves || opcode >= IRETURN && opcode <= RETURN) {
                return -1;
            }
            if (opcode == ATHROW) {
                return kept >= 0 && kept == loaded && farthest <= at ? at : -1;
            }
            for (int target : targets(at)) {
                farthest = Math.max(farthest, target);
            }
            loaded = variable(at, ALOAD, ALOAD_0);
        }
        return -1;
    }

    /** Whether it only jumps on or returns from there, at most with variables as they are. */
    boolean onlyLeaves(int at) {
        int end = at;
        while (isLoad(end)) {
            end += size(end);
        }
        int opcode = code[end] & 0xff;
        return opcode == GOTO || opcode == GOTO_W || opcode >= IRETURN && opcode <= RETURN;
    }

    private boolean isLoad(int at) {
        int opcode = code[at] & 0xff;
        int loaded = opcode == WIDE ? code[at + 1] & 0xff : opcode;
        return loaded >= ILOAD && loaded <= ALOAD_3;
    }

    /** The variable that an instruction has, one of a kind of its own or of the first four. */
    private int variable(int at, int general, int first) {
        int opcode = code[at] & 0xff;
        if (opcode == general) {
            return code[at + 1] & 0xff;
        }
        if (opcode == WIDE && (code[at + 1] & 0xff) == general) {
            return operand(at + 1);
        }
        return opcode >= first && opcode < first + 4 ? opcode - first : -1;
    }

    public int size(int at) {
        int aligned = (at + 4) & ~3;
        switch (code[at] & 0xff) {
            case TABLESWITCH:
                int entries = number(aligned + 8) - number(aligned + 4) + 1;
                return aligned + 12 + 4 * entries - at;
            case LOOKUPSWITCH:
                return aligned + 8 + 8 * number(aligned + 4) - at;
            case WIDE:
                return (code[at + 1] & 0xff) == IINC ? 6 : 4;
            default:
                return SIZE[code[at] & 0xff];
        }
    }

    private int number(int at) {
        return (code[at] & 0xff) << 24
                | (code[at + 1] & 0xff) << 16
                | (code[at + 2] & 0xff) << 8
                | code[at + 3] & 0xff;
    }
}
