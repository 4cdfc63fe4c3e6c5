package stepinto.probe.program;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.Location;
import com.sun.jdi.StackFrame;
import com.sun.jdi.ThreadReference;
import java.util.ArrayList;
import java.util.List;

/** The frames of one stopped thread that are shown, index 0 the innermost. */
public final class Stack {
    public final ThreadReference thread;
    public final List<FrameAt> frames = new ArrayList<>();
    public final List<Location> places = new ArrayList<>();

    public Stack(ThreadReference thread, Program program) {
        this.thread = thread;
        List<Location> all = places(thread);
        for (int index = 0; index < all.size(); index++) {
            if (program.shows(all.get(index))) {
                add(index, all.get(index));
            }
        }
        for (int index = 0; isEmpty() && index < all.size(); index++) {
            // Nothing of the program is here: show at least where it is.
            if (!all.get(index).declaringType().name().startsWith("stepinto.")) {
                add(index, all.get(index));
            }
        }
    }

    private void add(int index, Location place) {
        frames.add(new FrameAt(thread, index));
        places.add(place);
    }

    /** Where every frame of a thread is; nothing if it has ended or runs. */
    public static List<Location> places(ThreadReference thread) {
        List<Location> found = new ArrayList<>();
        try {
            for (StackFrame frame : thread.frames()) {
                found.add(frame.location());
            }
        } catch (IncompatibleThreadStateException running) {
            found.clear();
        }
        return found;
    }

    public boolean isEmpty() {
        return frames.isEmpty();
    }

    public int size() {
        return frames.size();
    }

    /** One frame of a stopped thread. A {@code StackFrame} itself dies at every invocation. */
    public static final class FrameAt {
        final ThreadReference thread;

        /** In the thread's whole stack, 0 the innermost. */
        public final int index;

        public FrameAt(ThreadReference thread, int index) {
            this.thread = thread;
            this.index = index;
        }

        /** The frame as it is now; to be asked again after every invocation. */
        public StackFrame frame() throws EvaluationFailed {
            try {
                return thread.frame(index);
            } catch (IncompatibleThreadStateException error) {
                throw new EvaluationFailed(
                        "thread " + thread.name() + " is running; pause it first");
            } catch (IndexOutOfBoundsException error) {
                throw new EvaluationFailed("frame " + index + " is gone; ask for the stack again");
            }
        }
    }
}
