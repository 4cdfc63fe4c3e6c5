package stepinto.probe.threads;

import com.sun.jdi.ReferenceType;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.request.ClassPrepareRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.EventRequestManager;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The requests for events; all off while the debugger itself runs code of the program. */
public final class Requests {
    private final VirtualMachine machine;
    private final Set<String> prepared = new HashSet<>();
    private final List<EventRequest> paused = new ArrayList<>();
    private boolean pausing;

    public Requests(VirtualMachine machine) {
        this.machine = machine;
    }

    public EventRequestManager manager() {
        return machine.eventRequestManager();
    }

    /** Turn a new request on, stopping all threads at its event. */
    public <T extends EventRequest> T enable(T request) {
        request.setSuspendPolicy(EventRequest.SUSPEND_ALL);
        if (pausing) {
            paused.add(request);
        } else {
            request.enable();
        }
        return request;
    }

    public void delete(EventRequest request) {
        paused.remove(request);
        manager().deleteEventRequest(request);
    }

    /** Ask for an event when a class is loaded; returns its versions that are loaded now. */
    public List<ReferenceType> await(String name) {
        if (prepared.add(name)) {
            ClassPrepareRequest request = manager().createClassPrepareRequest();
            request.addClassFilter(name);
            enable(request);
        }
        return machine.classesByName(name);
    }

    /** Turn everything off: code of the program is about to be run for the debugger. */
    void pause() {
        if (pausing) {
            return;
        }
        pausing = true;
        List<EventRequest> all = new ArrayList<>();
        all.addAll(manager().breakpointRequests());
        all.addAll(manager().exceptionRequests());
        all.addAll(manager().classPrepareRequests());
        all.addAll(manager().methodExitRequests());
        all.addAll(manager().stepRequests());
        all.addAll(manager().vmDeathRequests());
        for (EventRequest request : all) {
            if (request.isEnabled() && request.getProperty(Invoker.EXIT) == null) {
                request.disable();
                paused.add(request);
            }
        }
    }

    /** The program goes on: everything on again; whether it had been off. */
    public boolean resume() {
        if (!pausing) {
            return false;
        }
        pausing = false;
        for (EventRequest request : paused) {
            request.enable();
        }
        paused.clear();
        return true;
    }
}
