package stepinto.probe.program;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.StackFrame;
import com.sun.jdi.ThreadReference;

/** One frame of a stopped thread. A {@code StackFrame} itself dies at every invocation. */
public final class FrameAt {
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
            throw new EvaluationFailed("thread " + thread.name() + " is running; pause it first");
        } catch (IndexOutOfBoundsException error) {
            throw new EvaluationFailed("frame " + index + " is gone; ask for the stack again");
        }
    }
}
