package stepinto.probe.stops;

import com.sun.jdi.ClassType;
import com.sun.jdi.Location;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import java.util.*;
import stepinto.probe.program.ByteCode;
import stepinto.probe.program.ClassFile;
import stepinto.probe.program.ClassFiles;

/**
 * What the program's own methods do with exceptions, from their class files.
 *
 * <p>The virtual machine also calls an exception caught if a finally block or the end of a
 * synchronized one only passes it on.
 */
public final class Handlers {
    private final ClassFiles classFiles;
    private final BreakpointTable table;
    private final Map<Method, List<ClassFile.Handler>> known = new HashMap<>();
    /** Where a handler raises again what it was given. */
    private final Map<ClassFile.Handler, Integer> again = new HashMap<>();

    public Handlers(ClassFiles classFiles, BreakpointTable table) {
        this.classFiles = classFiles;
        this.table = table;
    }

    /** Whether the handler that begins at a place only passes exceptions on, with no breakpoint. */
    boolean passesOn(Location place) {
        boolean any = false;
        for (ClassFile.Handler handler : of(place.method())) {
            if (handler.entry == place.codeIndex()) {
                if (handler.type != null || !raisesAgain(place.method(), handler)) {
                    return false;
                }
                any = true;
            }
        }
        return any;
    }

    /** Whether the method of a frame that stands at a place catches an exception of a class. */
    boolean catches(Location place, Set<String> classes) {
        for (ClassFile.Handler handler : of(place.method())) {
            boolean covers = handler.start <= place.codeIndex() && place.codeIndex() < handler.end;
            boolean takes = covers && (handler.type == null
                    ? !raisesAgain(place.method(), handler) : classes.contains(handler.type));
            if (takes) {
                return true;
            }
        }
        return false;
    }

    /** Whether it passes on what it was given: it may return instead, or raise another. */
    private boolean raisesAgain(Method method, ClassFile.Handler handler) {
        Integer at = again.get(handler);
        if (at == null) {
            at = new ByteCode(method).raisesAgain(handler.entry);
            again.put(handler, at);
        }
        return at >= 0 && !table.watches(method, handler.entry, at);
    }

    /** The class of an exception and those above it. */
    static Set<String> classes(ObjectReference exception) {
        Set<String> names = new HashSet<>();
        ClassType type = (ClassType) exception.referenceType();
        for (; type != null; type = type.superclass()) {
            names.add(type.name());
        }
        return names;
    }

    private List<ClassFile.Handler> of(Method method) {
        List<ClassFile.Handler> found = known.get(method);
        if (found != null) {
            return found;
        }
        found = new ArrayList<>();
        ClassFile file = classFiles.exactly(method.declaringType().name());
        for (ClassFile.Code code : file == null ? new ArrayList<ClassFile.Code>() : file.methods) {
            if (code.name.equals(method.name()) && code.descriptor.equals(method.signature())) {
                found = code.handlers;
            }
        }
        known.put(method, found);
        return found;
    }
}
