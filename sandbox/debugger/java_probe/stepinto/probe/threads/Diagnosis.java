package stepinto.probe.threads;

import com.sun.jdi.*;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;
import stepinto.probe.program.TypeNames;
import stepinto.probe.program.Variables;

/** What the threads of a paused program are doing. */
public final class Diagnosis {
    public static final String ENDLESS_LOOP = "endless_loop";
    static final String STDIN = "waiting_for_stdin";
    public static final String DEADLOCK = "deadlock";
    public static final String NATIVE = "native_code";
    private final VirtualMachine machine;
    private final Program program;

    public Diagnosis(VirtualMachine machine, Program program) {
        this.machine = machine;
        this.program = program;
    }

    /** The threads that are in the program's own code, the main one first. */
    public List<ThreadReference> ownThreads(ThreadReference main) {
        List<ThreadReference> found = new ArrayList<>();
        for (ThreadReference thread : machine.allThreads()) {
            if (ownFrames(thread) > 0) {
                found.add(thread.equals(main) ? 0 : found.size(), thread);
            }
        }
        return found;
    }

    private int ownFrames(ThreadReference thread) {
        return (int) Stack.places(thread).stream().filter(program::owns).count();
    }

    /** Where to look at an interrupted program: the main thread, else the deepest in its code. */
    public ThreadReference toShow(ThreadReference main) {
        List<ThreadReference> own = ownThreads(main);
        if (own.contains(main) || own.isEmpty()) {
            return main;
        }
        return Collections.max(own, Comparator.comparingInt(this::ownFrames));
    }

    /** What keeps the program from ending, as a kill reason; notes give the details. */
    public String reason(ThreadReference main, List<String> notes) {
        List<ThreadReference> own = ownThreads(main);
        boolean waiting = !own.isEmpty();
        String first = null;
        for (ThreadReference thread : own) {
            Location place = new Stack(thread, program).places.get(0);
            String file = program.sources.relative(program.path(place));
            String where = " (" + file + ":" + place.lineNumber() + ")";
            String function = Program.function(place);
            notes.add(
                    "thread " + thread.name() + " is " + doing(thread) + " in " + function + where);
            String reason = reason(thread);
            waiting &= DEADLOCK.equals(reason);
            if (first == null || DEADLOCK.equals(first)) {
                first = reason;
            }
        }
        return waiting ? DEADLOCK : first == null ? NATIVE : first;
    }

    private static String reason(ThreadReference thread) {
        switch (thread.status()) {
            case ThreadReference.THREAD_STATUS_MONITOR:
            case ThreadReference.THREAD_STATUS_WAIT:
                return timed(thread) ? NATIVE : DEADLOCK;
            case ThreadReference.THREAD_STATUS_SLEEPING:
                return NATIVE;
            default:
                return running(thread);
        }
    }

    private static String running(ThreadReference thread) {
        List<Location> places = Stack.places(thread);
        Method top = places.isEmpty() ? null : places.get(0).method();
        if (top == null || !top.isNative()) {
            return ENDLESS_LOOP;
        }
        if (top.name().equals("park") || top.name().equals("wait")) {
            return DEADLOCK;
        }
        boolean file = top.declaringType().name().equals("java.io.FileInputStream");
        return file && top.name().startsWith("read") && descriptor(thread) == 0 ? STDIN : NATIVE;
    }

    /** Of the file that the innermost frame reads; -1 where it can't be told. */
    private static int descriptor(ThreadReference thread) {
        try {
            Value number = Variables.field(thread.frame(0).thisObject(), "fd", "fd");
            return number == null ? -1 : ((IntegerValue) number).value();
        } catch (IncompatibleThreadStateException running) {
            return -1;
        }
    }

    /** Whether a wait ends by itself after some time. */
    private static boolean timed(ThreadReference thread) {
        for (Location place : Stack.places(thread)) {
            String name = place.method().name();
            if (name.equals("parkNanos") || name.equals("parkUntil") || name.equals("awaitNanos")) {
                return true;
            }
            if (!TypeNames.isPlatform(place.declaringType().name())) {
                return false;
            }
        }
        return false;
    }

    /** In words: running, sleeping, waiting, blocked on a lock and who holds it. */
    public String doing(ThreadReference thread) {
        switch (thread.status()) {
            case ThreadReference.THREAD_STATUS_RUNNING:
                return running(thread).equals(STDIN) ? "waiting for standard input" : "running";
            case ThreadReference.THREAD_STATUS_SLEEPING:
                return "sleeping";
            case ThreadReference.THREAD_STATUS_MONITOR:
                return "blocked on " + monitor(thread, "a lock");
            case ThreadReference.THREAD_STATUS_WAIT:
                return "waiting for " + monitor(thread, "another thread");
            case ThreadReference.THREAD_STATUS_NOT_STARTED:
                return "not started";
            case ThreadReference.THREAD_STATUS_ZOMBIE:
                return "ended";
            default:
                return "";
        }
    }

    /** What a thread waits for, and who holds it; {@code unknown} if that is not known. */
    private static String monitor(ThreadReference thread, String unknown) {
        try {
            ObjectReference wanted = thread.currentContendedMonitor();
            if (wanted == null) {
                return unknown;
            }
            ThreadReference holder = wanted.owningThread();
            if (wanted instanceof ThreadReference) {
                return "thread " + ((ThreadReference) wanted).name() + " to end";
            }
            String kind = "the lock of an object of " + TypeNames.of(wanted, null);
            return holder == null ? kind : kind + ", held by thread " + holder.name();
        } catch (IncompatibleThreadStateException running) {
            return unknown;
        }
    }
}
