package stepinto.probe.stops;

import com.sun.jdi.VirtualMachine;
import com.sun.jdi.request.ExceptionRequest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.Target;
import stepinto.probe.threads.Requests;

/**
 * Finds the exception that ends the test or the program while its frames still live.
 *
 * <p>Most of them are caught: a test's by its runner, others by a finally block that passes them
 * on. So each one is looked at, which costs a fifth of a millisecond: classes that raise many are
 * left out.
 */
public final class Failures {
    private static final int MANY_OF_A_CLASS = 300;
    private static final int MANY = 3000;
    private final Expectations expectations;
    private final Requests requests;
    private final Target target;
    private final Map<String, Integer> counts = new HashMap<>();
    private final List<String> leftOut = new ArrayList<>();
    /** Of those that something catches. */
    private ExceptionRequest caught;
    private int total;

    public Failures(VirtualMachine machine, Requests requests, Target target) {
        expectations = new Expectations(machine);
        this.requests = requests;
        this.target = target;
    }

    /** Watch from now on. */
    public void watch() {
        requests.enable(requests.manager().createExceptionRequest(null, false, true));
        watchCaught();
    }

    private void watchCaught() {
        if (caught != null) {
            requests.delete(caught);
        }
        caught = requests.manager().createExceptionRequest(null, true, false);
        for (String name : leftOut) {
            caught.addClassExclusionFilter(name);
        }
        requests.enable(caught);
    }

    /** The program caught an exception: leave its class out if that happens too often. */
    public void onCaught(Escape escape, List<String> notes) {
        if (caught == null) {
            return;
        }
        String thrower = escape.thrower();
        Integer before = counts.get(thrower);
        int count = before == null ? 1 : before + 1;
        counts.put(thrower, count);
        if (++total > MANY) {
            requests.delete(caught);
            caught = null;
            notes.add(
                    "the program raised and caught over "
                            + MANY
                            + " exceptions; from now on none is watched, so that one that ends"
                            + " the test will not stop it: set an exception breakpoint for that");
        } else if (count == MANY_OF_A_CLASS) {
            leftOut.add(thrower);
            watchCaught();
            notes.add(
                    thrower
                            + " raised over "
                            + MANY_OF_A_CLASS
                            + " exceptions that the program caught; from now on those that it"
                            + " raises are not watched: set an exception breakpoint for that");
        }
    }

    /** Whether an exception ends the test, or a thread of the program. */
    public boolean isEnding(Escape escape, boolean mainThread) {
        if (escape.caughtByProgram() || !escape.leavesProgram()) {
            return false;
        }
        boolean test = escape.leaves(target.entryMethods);
        boolean ends = mainThread ? !escape.programGoesOn() : escape.uncaught();
        return (test || ends)
                && !escape.programGoesOn()
                && !Expectations.skips(escape.exception)
                && !expectations.meet(escape.exception, escape.thread);
    }
}
