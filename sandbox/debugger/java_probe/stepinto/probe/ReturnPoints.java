package stepinto.probe;

import com.sun.jdi.Location;
import com.sun.jdi.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Where a method returns a value, from its byte code (JVM specification, 6.5). */
final class ReturnPoints {
    private static final int IRETURN = 172;
    private static final int ARETURN = 176;
    private static final int TABLESWITCH = 170;
    private static final int LOOKUPSWITCH = 171;
    private static final int WIDE = 196;
    private static final int IINC = 132;
    /** The sizes of the instructions, by runs of equal ones: how many, and their bytes. */
    private static final int[] SIZES = {
        16, 1, 1, 2, 1, 3, 1, 2, 2, 3, 5, 2, 28, 1, 5, 2, 73, 1, 1, 3, 20, 1, 16, 3, 1, 2, 2, 0,
        6, 1, 7, 3, 2, 5, 1, 3, 1, 2, 1, 3, 2, 1, 2, 3, 2, 1, 1, 0, 1, 4, 2, 3, 2, 5
    };
    private static final byte[] SIZE = sizes();
    private final Map<Method, List<Location>> known = new HashMap<>();

    private static byte[] sizes() {
        byte[] size = new byte[256];
        int opcode = 0;
        for (int run = 0; run < SIZES.length; run += 2) {
            for (int left = SIZES[run]; left > 0; left--) {
                size[opcode++] = (byte) SIZES[run + 1];
            }
        }
        return size;
    }

    /** All in a method. */
    List<Location> of(Method method) {
        List<Location> found = known.get(method);
        if (found == null) {
            found = find(method);
            known.put(method, found);
        }
        return found;
    }

    /** Those on the line of a place. */
    List<Location> onLine(Location place) {
        List<Location> found = new ArrayList<>();
        for (Location point : of(place.method())) {
            if (point.lineNumber() == place.lineNumber()) {
                found.add(point);
            }
        }
        return found;
    }

    private static List<Location> find(Method method) {
        List<Location> found = new ArrayList<>();
        byte[] code = method.isNative() || method.isAbstract() ? new byte[0] : method.bytecodes();
        int at = 0;
        while (at < code.length) {
            int opcode = code[at] & 0xff;
            if (opcode >= IRETURN && opcode <= ARETURN) {
                found.add(method.locationOfCodeIndex(at));
            }
            int size = size(code, at, opcode);
            if (size <= 0) {
                break;
            }
            at += size;
        }
        return found;
    }

    private static int size(byte[] code, int at, int opcode) {
        int aligned = (at + 4) & ~3;
        switch (opcode) {
            case TABLESWITCH:
                int entries = number(code, aligned + 8) - number(code, aligned + 4) + 1;
                return aligned + 12 + 4 * entries - at;
            case LOOKUPSWITCH:
                return aligned + 8 + 8 * number(code, aligned + 4) - at;
            case WIDE:
                return (code[at + 1] & 0xff) == IINC ? 6 : 4;
            default:
                return SIZE[opcode];
        }
    }

    private static int number(byte[] code, int at) {
        return (code[at] & 0xff) << 24
                | (code[at + 1] & 0xff) << 16
                | (code[at + 2] & 0xff) << 8
                | code[at + 3] & 0xff;
    }
}
