package stepinto.probe;

import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.request.BreakpointRequest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Stops at the first line of the test method, or of {@code main}. */
final class Entry {
    static final String PROPERTY = "stepinto.entry";
    private final Target target;
    private final ClassFiles classFiles;
    private final Requests requests;
    private final List<BreakpointRequest> armed = new ArrayList<>();
    private boolean wanted;

    Entry(Target target, ClassFiles classFiles, Requests requests, boolean wanted) {
        this.target = target;
        this.classFiles = classFiles;
        this.requests = requests;
        this.wanted = wanted;
    }

    /** The entry's class was loaded. */
    void onPrepare(ReferenceType type) {
        if (!wanted || !type.name().equals(target.entryClass)) {
            return;
        }
        for (Method method : methods(type)) {
            if (!method.isAbstract() && !method.isNative() && method.location() != null) {
                BreakpointRequest request =
                        requests.manager().createBreakpointRequest(method.location());
                request.putProperty(PROPERTY, this);
                armed.add(requests.enable(request));
            }
        }
    }

    private List<Method> methods(ReferenceType type) {
        if (!target.entryMethod.isEmpty()) {
            return type.methodsByName(target.entryMethod);
        }
        Set<String> tests = new HashSet<>();
        ClassFile file = classFiles.exactly(type.name());
        for (ClassFile.Code code : file == null ? new ArrayList<ClassFile.Code>() : file.methods) {
            if (code.test || code.name.startsWith("test")) {
                tests.add(code.name);
            }
        }
        List<Method> found = new ArrayList<>();
        for (Method method : type.methods()) {
            if (tests.contains(method.name())) {
                found.add(method);
            }
        }
        return found;
    }

    /** It was reached: once is enough. */
    void reached() {
        wanted = false;
        for (BreakpointRequest request : armed) {
            requests.delete(request);
        }
        armed.clear();
    }
}
