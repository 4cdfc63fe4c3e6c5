package stepinto.probe.rendering;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ClassType;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.Contents.Shape;
import stepinto.probe.threads.InvocationFailed;
import stepinto.probe.threads.Invoker;

/**
 * Recognises collections and opens them.
 *
 * <p>The usual ones of {@code java.util} are read through their fields, which is fast and runs
 * nothing; the others of the JDK by their public methods, under a deadline.
 */
final class Containers {
    private static final long MILLIS = 1_000;
    private static final String OBJECT_ARRAY = "()[Ljava/lang/Object;";

    private final Heap heap;
    private final Invoker invoker;
    private final Map<ReferenceType, Optional<ReferenceType>> readable = new HashMap<>();

    Containers(Heap heap, Invoker invoker) {
        this.heap = heap;
        this.invoker = invoker;
    }

    /** What an object holds; null if it is no collection that can be opened. */
    Contents of(ObjectReference object) {
        if (object instanceof ArrayReference) {
            ArrayReference array = (ArrayReference) object;
            return Contents.array(Shape.LIST, array, 0, array.length());
        }
        ReferenceType type = object.referenceType();
        Optional<ReferenceType> known = readable.get(type);
        if (known == null) {
            known = Optional.ofNullable(container(type));
            readable.put(type, known);
        }
        return known.isPresent() ? open(object, known.get()) : null;
    }

    /** The class in a type's ancestry whose layout is known, or a collection of the JDK. */
    private static ReferenceType container(ReferenceType type) {
        if (!(type instanceof ClassType)) {
            return null;
        }
        for (ClassType base = (ClassType) type; base != null; base = base.superclass()) {
            if (Layouts.knows(base.name())) {
                return base;
            }
        }
        boolean platform = TypeNames.isPlatform(type.name());
        return platform && shape((ClassType) type) != null ? type : null;
    }

    private Contents open(ObjectReference object, ReferenceType type) {
        try {
            Contents contents = new Layouts(heap, this).read(object, type);
            if (contents != null) {
                return contents;
            }
        } catch (Heap.LayoutUnknown other) {
            // Another version of the JDK: its public methods say the same, only slower.
            return invoked(object);
        }
        return invoked(object);
    }

    /** Opened by a method of the object's. */
    private Contents invoked(ObjectReference object) {
        ClassType type = (ClassType) object.referenceType();
        Shape shape = shape(type);
        try {
            if (shape == Shape.MAP) {
                return of(copy(object));
            }
            Method method = type.concreteMethodByName("toArray", OBJECT_ARRAY);
            List<Value> none = Collections.emptyList();
            ArrayReference array =
                    (ArrayReference) invoker.invoke(object, null, method, none, MILLIS);
            return Contents.array(shape, array, 0, array.length());
        } catch (InvocationFailed | RuntimeException error) {
            return null;
        }
    }

    private ObjectReference copy(ObjectReference map) throws InvocationFailed {
        List<ReferenceType> found =
                map.virtualMachine().classesByName("java.util.LinkedHashMap");
        ReferenceType type = found.get(0);
        Method constructor = type.methodsByName("<init>", "(Ljava/util/Map;)V").get(0);
        List<ObjectReference> arguments = Collections.singletonList(map);
        return (ObjectReference) invoker.invoke(null, type, constructor, arguments, MILLIS);
    }

    private static Shape shape(ClassType type) {
        Shape found = null;
        for (InterfaceType each : type.allInterfaces()) {
            if (each.name().equals("java.util.Map")) {
                return Shape.MAP;
            }
            if (each.name().equals("java.util.Set")) {
                return Shape.SET;
            }
            if (each.name().equals("java.util.Collection")) {
                found = Shape.LIST;
            }
        }
        return found;
    }
}
