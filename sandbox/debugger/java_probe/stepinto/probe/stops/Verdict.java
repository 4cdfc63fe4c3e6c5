package stepinto.probe.stops;

import com.sun.jdi.*;
import com.sun.jdi.event.BreakpointEvent;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Target;
import stepinto.probe.threads.Requests;

/** How a run of tests ended: the runner's counts, or what ended the program before. */
public final class Verdict {
    public static final String EXIT = "stepinto.exit";
    private static final String RUNNER = "stepinto.runner.TestRunner";
    private static final String UNFINISHED = "the test run did not come to its end: ";
    private final VirtualMachine machine;
    private final Requests requests;
    private final Program program;
    private final Target target;
    /** What ends the program, and where; null if that is not known. */
    private String exit;
    /** Whether code of the program is what ends it. */
    private boolean ownExit;
    /** Whether the runner's counts are known. */
    private boolean counted;
    private boolean over;
    private int passed;
    private int failed;
    private int skipped;

    public Verdict(VirtualMachine machine, Requests requests, Program program) {
        this.machine = machine;
        this.requests = requests;
        this.program = program;
        this.target = program.target;
    }

    /** Hear of each attempt to end the program; once the machine has started. */
    public void watchExits() {
        if (!target.test) {
            return;
        }
        for (ReferenceType runtime : machine.classesByName("java.lang.Runtime")) {
            for (String name : new String[] {"exit", "halt"}) {
                Method method = runtime.methodsByName(name, "(I)V").get(0);
                requests.stopIn(method, EXIT);
            }
        }
    }

    /** The program is about to end itself; a security manager may still keep it from that. */
    public void onExit(BreakpointEvent event) throws IncompatibleThreadStateException {
        ThreadReference thread = event.thread();
        List<Location> places = Stack.places(thread);
        boolean system = places.size() > 1
                && places.get(1).declaringType().name().equals("java.lang.System");
        exit = (system ? "System." : "Runtime.") + event.location().method().name() + "("
                + thread.frame(0).getArgumentValues().get(0) + ")";
        ownExit = false;
        for (Location place : places) {
            if (program.owns(place)) {
                ownExit = true;
                exit += " at " + program.sources.relative(program.path(place)) + ":"
                        + place.lineNumber() + " in " + Program.function(place);
                return;
            }
        }
    }

    /** The virtual machine ends in order, and can be looked at for the last time. */
    public void onDeath() {
        for (ReferenceType runner : machine.classesByName(RUNNER)) {
            counted = true;
            over = ((BooleanValue) runner.getValue(runner.fieldByName("over"))).value();
            passed = number(runner, "passed");
            failed = number(runner, "failed");
            skipped = number(runner, "skipped");
        }
    }

    private static int number(ReferenceType runner, String field) {
        return ((IntegerValue) runner.getValue(runner.fieldByName(field))).value();
    }

    /** Whether the program ended before the test run did, as far as is known. */
    public boolean unfinished() {
        return counted ? !over : ownExit;
    }

    /** What to say of a run that ended with an exit code, and by no signal. */
    public List<String> notes(int code) {
        if (!counted && !unfinished()) {
            String end = code == 0 ? "no test failed in this run" : "it failed";
            return Collections.singletonList(target.testName + " has ended: " + end);
        }
        List<String> notes = new ArrayList<>();
        add(passed, " passed in this run", notes);
        add(failed, " failed in this run", notes);
        add(skipped, skipped == 1 ? " was skipped" : " were skipped", notes);
        if (unfinished()) {
            String end = exit == null ? "the program ended before" : exit + " ended the program";
            notes.add(UNFINISHED + end);
        } else if (passed > 0 && failed == 0 && code != 0) {
            notes.add("the test runner still ended with exit code " + code + ": no test failed");
        }
        return notes;
    }

    private void add(int count, String what, List<String> notes) {
        if (count > 0) {
            boolean alone = passed + failed + skipped == 1;
            String tests = count == 1 ? "1 test" : count + " tests";
            notes.add((alone ? target.testName : tests) + what);
        }
    }
}
