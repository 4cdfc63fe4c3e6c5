package stepinto.probe;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.Event;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.StepEvent;
import com.sun.jdi.event.VMDisconnectEvent;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.StepRequest;
import java.util.ArrayList;
import stepinto.probe.threads.Diagnosis;
import stepinto.probe.wire.Request;

/** Lets the program run, to its next stop, its end or the deadline. */
final class Runner {
    private static final int NUDGE_MILLIS = 100;
    private final VirtualMachine machine;
    private final Debugging debugging;
    /** The events that the program is stopped at; resumed, they let it go on. */
    EventSet held;
    private boolean suspended;
    private boolean ended;

    Runner(VirtualMachine machine, Debugging debugging) {
        this.machine = machine;
        this.debugging = debugging;
    }

    /** The next stop; null if the program ended. */
    Stop run(Request request) throws InterruptedException, IncompatibleThreadStateException {
        resume();
        while (true) {
            EventSet set = debugging.events.next(request.millisLeft());
            if (set == null) {
                Stop stop = interrupted();
                return ended ? null : stop;
            }
            held = set;
            if (ends(set)) {
                return null;
            }
            Stop stop = new Events(debugging, set).handle();
            if (stop != null) {
                if (set.suspendPolicy() != EventRequest.SUSPEND_ALL) {
                    suspended = true;
                    machine.suspend();
                }
                debugging.stepper.stop();
                return stop;
            }
            resume();
        }
    }

    private static boolean ends(EventSet set) {
        for (Event event : set) {
            if (event instanceof VMDisconnectEvent) {
                return true;
            }
        }
        return false;
    }

    private void resume() {
        debugging.evaluator.resumed();
        if (debugging.requests.resume()) {
            debugging.table.recheck(debugging.notes);
        }
        debugging.invoker.resuming();
        if (suspended) {
            suspended = false;
            machine.resume();
        }
        EventSet last = held;
        held = null;
        if (last != null) {
            last.resume();
        }
    }

    /** Out of time: pause the program where it is, and find out what it is doing. */
    private Stop interrupted() throws InterruptedException, IncompatibleThreadStateException {
        machine.suspend();
        suspended = true;
        debugging.stepper.stop();
        ThreadReference main = debugging.mainThread;
        ThreadReference shown = debugging.diagnosis.toShow(main);
        ArrayList<String> details = new ArrayList<>();
        String reason = debugging.diagnosis.reason(main, details);
        Stop other = nudge(shown);
        if (other != null) {
            return other;
        }
        if (details.size() > 1 || !reason.equals(Diagnosis.ENDLESS_LOOP)) {
            debugging.notes.addAll(details);
        }
        Stop stop = new Stop("interrupted", shown);
        stop.doing = reason;
        return stop;
    }

    /**
     * Methods can be run only in a thread that was stopped by an event of its own: so give it one,
     * an instruction further on. Gives another stop that came first.
     */
    private Stop nudge(ThreadReference thread)
            throws InterruptedException, IncompatibleThreadStateException {
        debugging.invoker.stoppedIn(thread, false);
        boolean runs = thread.status() == ThreadReference.THREAD_STATUS_RUNNING;
        if (!runs || thread.frameCount() == 0) {
            return null;
        }
        StepRequest step =
                debugging.requests.manager().createStepRequest(
                        thread, StepRequest.STEP_MIN, StepRequest.STEP_INTO);
        debugging.requests.enable(step);
        machine.resume();
        suspended = false;
        EventSet set = debugging.events.take(NUDGE_MILLIS);
        debugging.requests.delete(step);
        if (set == null) {
            machine.suspend();
            suspended = true;
            return null;
        }
        held = set;
        ended = ends(set);
        if (ended) {
            return null;
        }
        if (set.iterator().next() instanceof StepEvent) {
            debugging.invoker.stoppedIn(thread, true);
            return null;
        }
        return new Events(debugging, set).handle();
    }
}
