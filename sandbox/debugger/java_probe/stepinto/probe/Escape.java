package stepinto.probe;

import com.sun.jdi.Location;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.event.ExceptionEvent;
import java.util.List;

/** How far an exception gets: which frames it leaves, and where it is caught. */
final class Escape {
    final ThreadReference thread;
    /** Null where nothing catches it. */
    final Location caught;
    private final Location thrown;
    private final Program program;
    private List<Location> places;

    Escape(ExceptionEvent event, Program program) {
        this.program = program;
        thread = event.thread();
        caught = event.catchLocation();
        thrown = event.location();
    }

    /** Whether a method of the program's own catches it. */
    boolean caughtByProgram() {
        return caught != null && program.owns(caught);
    }

    /** The class whose code raised it. */
    String thrower() {
        return thrown.declaringType().name();
    }

    private List<Location> places() {
        if (places == null) {
            places = Stack.places(thread);
        }
        return places;
    }

    /** The index of the frame that catches it; the number of frames where none does. */
    private int catcher() {
        List<Location> all = places();
        for (int index = 0; caught != null && index < all.size(); index++) {
            if (all.get(index).method().equals(caught.method())) {
                return index;
            }
        }
        return all.size();
    }

    /** The depth of the frame that catches it, 1 the outermost; 0 where none does. */
    int catchDepth() {
        return places().size() - catcher();
    }

    /** Whether it leaves code of the program's own. */
    boolean leavesProgram() {
        return owned(0, catcher());
    }

    /** Whether code of the program's own goes on behind the one that catches it. */
    boolean programGoesOn() {
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
