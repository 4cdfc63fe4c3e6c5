package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.FieldWrites;
import stepinto.probe.program.TypeNames;
import stepinto.probe.threads.Invoker;
import stepinto.probe.threads.Invoker.InvocationFailed;

/**
 * What the program's own {@code toString} and {@code getMessage} say: asked once an answer for each
 * object, under a deadline, and never again of a class that did not end in time.
 */
final class ProgramText {
    private static final long MILLIS = 1_000;
    /** For all the objects of one answer together. */
    private static final long ANSWER_MILLIS = 3_000;
    private static final String SIGNATURE = "()Ljava/lang/String;";
    private static final int MESSAGE_CHARS = 200;

    private final Heap heap;
    private final Invoker invoker;
    private final FieldWrites writes;
    private final Set<ReferenceType> endless = new HashSet<>();
    private final Map<ObjectReference, Said> said = new HashMap<>();
    private long spent;
    private boolean locksKnown;
    private String locked;

    ProgramText(Heap heap, Invoker invoker, FieldWrites writes) {
        this.heap = heap;
        this.invoker = invoker;
        this.writes = writes;
    }

    /** What an object said: a text, null, or in its place what went wrong. */
    private static final class Said {
        /** No method can be run in the thread as it is. */
        static final Said IMPOSSIBLE = new Said(null, "could not be run");

        final StringReference text;
        final String problem;

        Said(StringReference text, String problem) {
            this.text = text;
            this.problem = problem;
        }
    }

    void begin() {
        said.clear();
        spent = 0;
        locksKnown = false;
    }

    /** Why {@code toString} should not be run and the fields are shown instead; else null. */
    String obstacleToString(ReferenceType type) {
        Method method = ((ClassType) type).concreteMethodByName("toString", SIGNATURE);
        return method != null && writes.in(method)
                ? "was not run: it would set a field" : obstacle(type);
    }

    /** Why a method of a class should not be run; else null. */
    private String obstacle(ReferenceType type) {
        if (endless.contains(type) || spent >= ANSWER_MILLIS) {
            return "was too slow before and not run";
        }
        if (TypeNames.isPlatform(type.name())) {
            return null;
        }
        if (!locksKnown) {
            ThreadReference thread = invoker.thread();
            String holder = thread == null ? null : holder(thread);
            locked = holder == null ? null : "was not run: thread " + holder + " holds a lock";
            locksKnown = true;
        }
        return locked;
    }

    /**
     * The name of another thread that holds a lock; null if none does.
     *
     * <p>A method that needs it waits forever, and a thread that waits for a lock can't be called
     * back.
     */
    private static String holder(ThreadReference current) {
        VirtualMachine machine = current.virtualMachine();
        if (!machine.canGetOwnedMonitorInfo()) {
            return null;
        }
        for (ThreadReference thread : machine.allThreads()) {
            if (thread.equals(current)) {
                continue;
            }
            try {
                for (ObjectReference lock : thread.ownedMonitors()) {
                    // Who waits for input holds the stream's own lock all the while.
                    if (!lock.referenceType().name().startsWith("java.io.")) {
                        return thread.name();
                    }
                }
            } catch (IncompatibleThreadStateException | ObjectCollectedException running) {
                continue; // it runs on, or has ended: it will let go
            }
        }
        return null;
    }

    /**
     * Appends what {@code toString} says, or why it says nothing. Throws Full.
     *
     * @return false if nothing was appended, because no method can be run here
     */
    boolean put(ObjectReference object, BoundedText text, boolean alone) {
        Said answer = ask(object, "toString");
        if (answer == Said.IMPOSSIBLE) {
            return false;
        }
        if (answer.problem != null) {
            text.putForeign(answer.problem);
        } else if (answer.text == null) {
            text.put("<toString() returned null>");
        } else {
            text.put(heap.text(answer.text), alone, BoundedText.UNQUOTED);
        }
        return true;
    }

    /** Appends an exception's message behind a text; nothing if it has none. Throws Full. */
    boolean putMessage(String before, ObjectReference exception, BoundedText text) {
        ClassType type = (ClassType) exception.referenceType();
        Method method = type.concreteMethodByName("getMessage", SIGNATURE);
        StringReference message;
        if (method == null || method.declaringType().name().equals("java.lang.Throwable")) {
            message = detail(exception);
        } else {
            Said answer = ask(exception, "getMessage");
            boolean failed = answer.problem != null && answer != Said.IMPOSSIBLE;
            if (failed) {
                text.put(before);
                text.putForeign(answer.problem);
                return true;
            }
            message = answer == Said.IMPOSSIBLE ? detail(exception) : answer.text;
        }
        if (message != null) {
            text.put(before);
            text.put(heap.text(message), false, BoundedText.UNQUOTED);
        }
        return message != null;
    }

    private Said ask(ObjectReference object, String name) {
        Said known = said.get(object);
        if (known == null) {
            long start = System.nanoTime();
            known = invoke(object, name);
            spent += (System.nanoTime() - start) / 1_000_000;
            said.put(object, known);
        }
        return known;
    }

    private Said invoke(ObjectReference object, String name) {
        ReferenceType type = object.referenceType();
        if (obstacle(type) != null) {
            return Said.IMPOSSIBLE;
        }
        try {
            Method method = ((ClassType) type).concreteMethodByName(name, SIGNATURE);
            Value value = invoker.invoke(
                    object, null, method, Collections.<Value>emptyList(), MILLIS);
            return new Said((StringReference) value, null);
        } catch (InvocationFailed error) {
            String problem = "did not end within " + MILLIS / 1_000 + " s";
            if (error.timedOut) {
                endless.add(type);
            } else if (error.raised == null) {
                return Said.IMPOSSIBLE;
            } else {
                StringReference message = detail(error.raised);
                String text =
                        message == null ? "" : heap.text(message).part(0, MESSAGE_CHARS);
                problem = "raised " + TypeNames.simple(error.raised.referenceType().name())
                        + (text.isEmpty() ? "" : ": " + text);
            }
            return new Said(null, "<" + name + "() " + problem + ">");
        }
    }

    private StringReference detail(ObjectReference exception) {
        return (StringReference)
                heap.value(exception, "java.lang.Throwable", "detailMessage");
    }
}
