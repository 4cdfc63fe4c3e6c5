package stepinto.probe.program;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import stepinto.probe.program.ClassFile.Code;
import stepinto.probe.program.ClassFile.ConstantPool;
import stepinto.probe.program.ClassFile.Handler;

/**
 * How many slots of a method's operand stack are in use before each instruction (JVM specification,
 * 6.5). A statement begins with none, or with those of the expression that it is in.
 */
final class OperandStack {
    private static final int UNKNOWN = -1;
    private static final int GETSTATIC = 178;
    private static final int INVOKEVIRTUAL = 182;
    private static final int INVOKESTATIC = 184;
    private static final int INVOKEDYNAMIC = 186;
    private static final int MULTIANEWARRAY = 197;
    private static final int WIDE = 196;
    /** What the instructions add to the stack, by runs of equal ones: how many, and how much. */
    private static final int[] CHANGES = {
        1, 0, 8, 1, 2, 2, 3, 1, 2, 2, 4, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 5, 1, 4, 2, 4, 1, 4, 2,
        4, 1, 1, -1, 1, 0, 1, -1, 1, 0, 5, -1, 1, -2, 1, -1, 1, -2, 5, -1, 4, -2, 4, -1, 4, -2,
        4, -1, 1, -3, 1, -4, 1, -3, 1, -4, 4, -3, 1, -1, 1, -2, 3, 1, 3, 2, 1, 0, 1, -1, 1, -2,
        1, -1, 1, -2, 1, -1, 1, -2, 1, -1, 1, -2, 1, -1, 1, -2, 1, -1, 1, -2, 1, -1, 1, -2, 1,
        -1, 1, -2, 1, -1, 1, -2, 1, -1, 1, -2, 4, 0, 7, -1, 1, -2, 1, -1, 1, -2, 1, -1, 1, -2, 1,
        0, 1, 1, 1, 0, 1, 1, 2, -1, 2, 0, 2, 1, 1, -1, 1, 0, 1, -1, 3, 0, 1, -3, 2, -1, 2, -3, 6,
        -1, 8, -2, 1, 0, 1, 1, 1, 0, 3, -1, 1, -2, 1, -1, 1, -2, 1, -1, 10, 0, 1, 1, 3, 0, 1, -1,
        2, 0, 2, -1, 2, 0, 2, -1, 1, 0, 1, 1
    };
    private static final byte[] CHANGE = ByteCode.byOpcode(CHANGES);
    private final byte[] code;
    private final ByteCode instructions;
    private final ConstantPool constants;
    private final int[] depths;
    private final Deque<Integer> open = new ArrayDeque<>();

    OperandStack(ClassFile file, Code method) {
        code = file.bytes(method);
        instructions = new ByteCode(code);
        constants = file.constants;
        depths = new int[code.length];
        Arrays.fill(depths, UNKNOWN);
        reach(0, 0);
        for (Handler handler : method.handlers) {
            reach(handler.entry, 1);
        }
        while (!open.isEmpty()) {
            follow(open.pop());
        }
    }

    /** Before the instruction at an index; 0 for one that is never reached. */
    int before(int index) {
        return Math.max(depths[index], 0);
    }

    private void reach(int index, int depth) {
        if (index < code.length && depths[index] == UNKNOWN) {
            depths[index] = Math.max(depth, 0);
            open.push(index);
        }
    }

    private void follow(int at) {
        int after = depths[at] + change(at);
        for (int target : instructions.targets(at)) {
            reach(target, after);
        }
        if (instructions.goesOn(at)) {
            reach(at + instructions.size(at), after);
        }
    }

    private int change(int at) {
        int opcode = code[at] & 0xff;
        if (opcode == WIDE) {
            return CHANGE[code[at + 1] & 0xff];
        }
        if (opcode == MULTIANEWARRAY) {
            return 1 - (code[at + 3] & 0xff);
        }
        if (opcode < GETSTATIC || opcode > INVOKEDYNAMIC) {
            return CHANGE[opcode];
        }
        int index = instructions.operand(at);
        String type = constants.text(constants.second(constants.second(index)));
        if (opcode >= INVOKEVIRTUAL) {
            int close = type.indexOf(')');
            boolean object = opcode != INVOKESTATIC && opcode != INVOKEDYNAMIC;
            return slots(type, close + 1, type.length())
                    - slots(type, 1, close) - (object ? 1 : 0);
        }
        int size = slots(type, 0, type.length());
        switch (opcode - GETSTATIC) {
            case 0:
                return size;
            case 1:
                return -size;
            case 2:
                return size - 1;
            default:
                return -size - 1;
        }
    }

    /** The slots of the types in a part of a descriptor. */
    private static int slots(String types, int from, int to) {
        int found = 0;
        for (int at = from; at < to; at++) {
            char letter = types.charAt(at);
            boolean array = letter == '[';
            while (types.charAt(at) == '[') {
                at++;
            }
            if (types.charAt(at) == 'L') {
                at = types.indexOf(';', at);
            }
            boolean wide = !array && (letter == 'J' || letter == 'D');
            found += letter == 'V' ? 0 : wide ? 2 : 1;
        }
        return found;
    }
}
