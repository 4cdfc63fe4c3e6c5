package stepinto.probe.rendering;

import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import java.util.HashMap;
import java.util.Map;
import stepinto.probe.program.TypeNames;
import stepinto.probe.threads.Invoker;
import stepinto.probe.wire.Limits;

/** Values as bounded text, whatever they are and whatever their {@code toString} does. */
public final class ValueText {
    private final Limits limits;
    private final Heap heap = new Heap();
    private final Containers containers;
    private final ProgramText programText;
    private final Map<ReferenceType, Kind> kinds = new HashMap<>();

    public ValueText(Limits limits, Invoker invoker) {
        this.limits = limits;
        this.containers = new Containers(heap, invoker);
        this.programText = new ProgramText(heap, invoker);
    }

    /** A new answer begins: what the program's {@code toString} said before may have changed. */
    public void begin() {
        programText.begin();
    }

    public Rendered render(Value value) {
        return render(value, 0);
    }

    /** The text from a character on; one page of it. */
    public Rendered render(Value value, int start) {
        return render(value, start, limits.valueChars);
    }

    /** At most so many characters of it. */
    Rendered render(Value value, int start, int chars) {
        BoundedText text = new BoundedText(start, chars, limits.valueLines);
        new Rendering(this, limits, text).render(value);
        return text.rendered();
    }

    /** The message of an exception; null if it has none. Bounded. */
    public String message(ObjectReference exception) {
        BoundedText text = new BoundedText(0, limits.valueChars, limits.valueLines);
        try {
            if (!programText.putMessage(exception, text)) {
                return null;
            }
        } catch (BoundedText.Full full) {
            return text.rendered().text;
        }
        return text.rendered().text;
    }

    /** {@code Type: message} of an exception, or {@code Type}. */
    public String describe(ObjectReference exception) {
        String type = TypeNames.simple(exception.referenceType().name());
        String message = message(exception);
        return message == null ? type : type + ": " + message;
    }

    public Heap heap() {
        return heap;
    }

    Containers containers() {
        return containers;
    }

    ProgramText programText() {
        return programText;
    }

    Kind kind(ReferenceType type) {
        Kind kind = kinds.get(type);
        if (kind == null) {
            kind = Kind.of(type);
            kinds.put(type, kind);
        }
        return kind;
    }
}
