package stepinto.probe;

import com.sun.jdi.ClassType;
import com.sun.jdi.Location;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the program's own methods do with exceptions, from their class files.
 *
 * <p>The virtual machine calls an exception caught also where a finally block or the end of a
 * synchronized one only passes it on.
 */
final class Handlers {
    private final ClassFiles classFiles;
    private final Map<Method, List<ClassFile.Handler>> known = new HashMap<>();

    Handlers(ClassFiles classFiles) {
        this.classFiles = classFiles;
    }

    /** Whether the handler that begins at a place only passes exceptions on. */
    boolean passesOn(Location place) {
        boolean any = false;
        for (ClassFile.Handler handler : of(place.method())) {
            if (handler.entry == place.codeIndex()) {
                if (handler.type != null) {
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
            if (covers && classes.contains(handler.type)) {
                return true;
            }
        }
        return false;
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
        if (found == null) {
            found = find(method);
            known.put(method, found);
        }
        return found;
    }

    private List<ClassFile.Handler> find(Method method) {
        ClassFile file = classFiles.exactly(method.declaringType().name());
        if (file != null) {
            for (ClassFile.Code code : file.methods) {
                if (code.name.equals(method.name())
                        && code.descriptor.equals(method.signature())) {
                    return code.handlers;
                }
            }
        }
        return new ArrayList<>();
    }
}
