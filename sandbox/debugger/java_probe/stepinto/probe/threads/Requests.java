package stepinto.probe.threads;

import com.sun.jdi.ReferenceType;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.request.ClassPrepareRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.EventRequestManager;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The requests for events; all off while the debugger itself runs code of the program. */
public final class Requests {
    private final VirtualMachine machine;
    private final Set<String> prepared = new HashSet<>();
    private final Set<EventRequest> requests = new LinkedHashSet<>();
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
        requests.add(request);
        if (!pausing) {
            request.enable();
        }
        return request;
    }

    public void delete(EventRequest request) {
        requests.remove(request);
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
        if (!pausing) {
            pausing = true;
            requests.forEach(EventRequest::disable);
        }
    }

    /** The program goes on: everything on again; whether it had been off. */
    public boolean resume() {
        if (!pausing) {
            return false;
        }
        pausing = false;
        requests.forEach(EventRequest::enable);
        return true;
    }
}
