package stepinto.probe.threads;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.IntegerValue;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.BreakpointEvent;
import com.sun.jdi.event.Event;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.EventRequest;
import java.util.ArrayList;
import java.util.List;

/**
 * Notices that a method run for the debugger ends the program.
 *
 * <p>Without this the virtual machine would never end: it waits for the debugger, which waits
 * for the method.
 */
final class ExitWatch {
    /** Marks the requests, which stay on while methods run. */
    static final String PROPERTY = "stepinto.exit";

    private static final String[] METHODS = {"exit", "halt"};
    private final List<BreakpointRequest> requests = new ArrayList<>();

    ExitWatch(VirtualMachine machine) {
        ReferenceType type = machine.classesByName("java.lang.Runtime").get(0);
        for (String name : METHODS) {
            Method method = type.methodsByName(name, "(I)V").get(0);
            BreakpointRequest request =
                    machine.eventRequestManager().createBreakpointRequest(method.location());
            request.setSuspendPolicy(EventRequest.SUSPEND_EVENT_THREAD);
            request.putProperty(PROPERTY, true);
            request.enable();
            requests.add(request);
        }
    }

    /** The exit code that a set of events tells of; null if it is no exit. */
    Integer code(EventSet set) throws IncompatibleThreadStateException {
        for (Event event : set) {
            if (event instanceof BreakpointEvent && requests.contains(event.request())) {
                BreakpointEvent exit = (BreakpointEvent) event;
                Object code = exit.thread().frame(0).getArgumentValues().get(0);
                return ((IntegerValue) code).value();
            }
        }
        return null;
    }
}
