package stepinto.probe.stops;

import com.sun.jdi.Location;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.event.ExceptionEvent;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;

/** How far an exception gets: which frames it leaves, and where it is caught. */
public final class Escape {
    final ThreadReference thread;
    final ObjectReference exception;
    private final Location thrown;
    /** As the virtual machine has it; null if nothing catches it. */
    private final Location caught;
    /** Whether it comes to code of the program's own that only passes it on: a finally block. */
    public final boolean passedOn;
    private final Program program;
    private final Handlers handlers;
    private List<Location> places;
    private int catcher = -1;

    public Escape(ExceptionEvent event, Program program, Handlers handlers) {
        this.program = program;
        this.handlers = handlers;
        thread = event.thread();
        exception = event.exception();
        caught = event.catchLocation();
        thrown = event.location();
        passedOn = caught != null && program.owns(caught) && handlers.passesOn(caught);
    }

    /** Whether a method of the program's own catches it. */
    public boolean caughtByProgram() {
        if (caught == null || !program.owns(caught)) {
            return false;
        }
        return !passedOn || catcher() < places().size() && program.owns(places().get(catcher()));
    }

    /** Whether it is known to be caught in none of the methods, without a look at the frames. */
    boolean caughtOutside(Set<?> methods) {
        return !passedOn && caughtByProgram() && !methods.contains(caught.method());
    }

    /** Whether nothing at all catches it. */
    boolean uncaught() {
        return caught == null || passedOn && catcher() == places().size();
    }

    /** The class whose code raised it. */
    String thrower() {
        return thrown.declaringType().name();
    }

    private List<Location> places() {
        places = places == null ? Stack.places(thread) : places;
        return places;
    }

    /** The index of the frame that catches it; the number of frames if none does. */
    private int catcher() {
        if (catcher >= 0) {
            return catcher;
        }
        List<Location> all = places();
        int index = 0;
        while (index < all.size()
                && (caught == null || !all.get(index).method().equals(caught.method()))) {
            index++;
        }
        // Behind a finally block foreign code is taken to catch everything.
        Set<String> classes = passedOn ? Handlers.classes(exception) : new HashSet<>();
        for (; passedOn && index < all.size(); index++) {
            Location place = all.get(index);
            boolean start = place.declaringType().name().equals("java.lang.Thread");
            if (program.owns(place) ? handlers.catches(place, classes) : !start) {
                break;
            }
        }
        catcher = index;
        return catcher;
    }

    /** The depth of the frame that catches it, 1 the outermost; 0 if none does. */
    int catchDepth() {
        return places().size() - catcher();
    }

    /** Whether it leaves code of the program's own. */
    public boolean leavesProgram() {
        return owned(0, catcher());
    }

    /** Whether code of the program's own goes on behind the one that catches it. */
    public boolean programGoesOn() {
        return owned(catcher(), places().size());
    }

    private boolean owned(int from, int to) {
        for (Location place : places().subList(from, to)) {
            if (program.owns(place)) {
                return true;
            }
        }
        return false;
    }

    /** Whether it leaves a method of the program's own with one of the names. */
    boolean leaves(List<String> methods) {
        for (Location place : places().subList(0, catcher())) {
            if (methods.contains(place.method().name()) && program.owns(place)) {
                return true;
            }
        }
        return false;
    }
}
