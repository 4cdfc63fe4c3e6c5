package stepinto.probe.stops;

import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.request.BreakpointRequest;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.program.Target;
import stepinto.probe.threads.Requests;

/** Stops at the first line of the test method, or of {@code main}. */
public final class Entry {
    public static final String PROPERTY = "stepinto.entry";
    private final Target target;
    private final Requests requests;
    private final List<BreakpointRequest> armed = new ArrayList<>();
    private boolean wanted;

    public Entry(Target target, Requests requests, boolean wanted) {
        this.target = target;
        this.requests = requests;
        this.wanted = wanted;
    }

    /** The entry's class was loaded. */
    public void onPrepare(ReferenceType type) {
        boolean stops = wanted && type.name().equals(target.entryClass);
        for (String name : stops ? target.entryMethods : new ArrayList<String>()) {
            for (Method method : type.methodsByName(name)) {
                if (!method.isAbstract() && !method.isNative() && !method.isBridge()) {
                    BreakpointRequest request =
                            requests.manager().createBreakpointRequest(method.location());
                    request.putProperty(PROPERTY, this);
                    armed.add(requests.enable(request));
                }
            }
        }
    }

    /** It was reached: once is enough. */
    public void reached() {
        wanted = false;
        for (BreakpointRequest request : armed) {
            requests.delete(request);
        }
        armed.clear();
    }
}
